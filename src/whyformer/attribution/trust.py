"""How far an attribution can be trusted: a verdict, and the reasons for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Level = Literal["ok", "note", "warning"]
Verdict = Literal["sound", "sound with notes", "doubtful", "unchecked"]

# What can be checked; reasons are listed in this order.
KINDS = (
    "values",
    "forward",
    "drift",
    "operations",
    "conservation",
    "layers",
    "precision",
    "target",
    "inputs",
)


@dataclass(frozen=True)
class Reason:
    """One finding about an attribution.

    Attributes:
        kind: What was checked: "values" (finite, not all equal), "forward" (the model computes
            the same value as without whyformer), "drift" (relevance from layer to layer),
            "operations" (without a rule), "conservation" (the sum), "layers" (not seen),
            "precision", "target" or "inputs" (not like what a bundled model was trained on).
        level: "ok" if the check passed, "note" for what the user should know, "warning" for
            scores that may be wrong.
        text: The finding as one or two sentences.
        culprits: The operations, layers or arguments that the finding is about.
        share: The size of the finding, as a share of the explained value; None if it has none.
        samples: The indices of the samples that it is about; None for all of them.
    """

    kind: str
    level: Level
    text: str
    culprits: tuple[str, ...] = ()
    share: float | None = None
    samples: tuple[int, ...] | None = None


@dataclass(frozen=True, repr=False)
class Trust:
    """A verdict about an attribution, and the reasons for it.

    Example:
        >>> str(whyformer.explain("a gripping film").trust)
        'sound: Scores and sinks sum to the output.'
    """

    reasons: tuple[Reason, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """ "doubtful" after a warning, "sound with notes" after a note, otherwise "sound".

        "unchecked" without any reason, as in files of older versions.
        """
        levels = {reason.level for reason in self.reasons}
        if "warning" in levels:
            return "doubtful"
        if "note" in levels:
            return "sound with notes"
        return "sound" if levels else "unchecked"

    @property
    def warnings(self) -> tuple[Reason, ...]:
        """The reasons for doubt."""
        return tuple(reason for reason in self.reasons if reason.level == "warning")

    @property
    def summary(self) -> str:
        """The reasons for the verdict in one line: one finding per kind, the largest first.

        Without doubts and notes: what the scores sum to.
        """
        for level in ("warning", "note"):
            found = [reason for reason in self.reasons if reason.level == level]
            if found:
                kinds = dict.fromkeys(reason.kind for reason in found)
                return " ".join(_largest([r for r in found if r.kind == kind]) for kind in kinds)
        sums = [reason.text for reason in self.reasons if reason.kind == "conservation"]
        return sums[0] if sums else ""

    def __str__(self) -> str:
        """Return the verdict and the reasons that the user should read, in one line."""
        return f"{self.verdict}: {self.summary}" if self.summary else self.verdict

    def __repr__(self) -> str:
        return f"<Trust {self}>"

    def add(self, reasons: Sequence[Reason]) -> Trust:
        """Return the verdict with more reasons."""
        return make_trust((*self.reasons, *reasons))

    def without(self, *kinds: str) -> Trust:
        """Return the verdict without the reasons of these kinds."""
        return Trust(tuple(reason for reason in self.reasons if reason.kind not in kinds))

    def take(self, samples: Sequence[int]) -> Trust:
        """Return the verdict about these samples alone, numbered in this order."""
        places: dict[int, list[int]] = {}
        for place, sample in enumerate(samples):
            places.setdefault(sample, []).append(place)
        return _renumber(self.reasons, lambda sample: places.get(sample, []), len(samples))

    def merge_rows(self, samples: Sequence[int]) -> Trust:
        """Return the verdict about samples that were explained in several rows each.

        `samples` holds the sample of each row. Of several findings of one kind about one sample,
        the largest stays.
        """
        merged = _renumber(self.reasons, lambda row: [samples[row]], max(samples) + 1)
        kept: dict[Any, Reason] = {}
        for reason in merged.reasons:
            key = reason.kind, reason.level, reason.culprits, reason.samples
            if key not in kept or _size(kept[key]) < _size(reason):
                kept[key] = reason
        return Trust(tuple(kept.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "verdict": self.verdict,
            "reasons": [
                {
                    "kind": reason.kind,
                    "level": reason.level,
                    "text": reason.text,
                    "culprits": list(reason.culprits),
                    "share": reason.share,
                    "samples": None if reason.samples is None else list(reason.samples),
                }
                for reason in self.reasons
            ],
        }

    @staticmethod
    def from_dict(plain: Mapping[str, Any] | None) -> Trust:
        """Return what `to_dict` wrote; an unchecked verdict if there is nothing."""
        if plain is None:
            return Trust()
        return Trust(
            tuple(
                Reason(
                    one["kind"],
                    one["level"],
                    one["text"],
                    tuple(one["culprits"]),
                    one["share"],
                    None if one["samples"] is None else tuple(one["samples"]),
                )
                for one in plain["reasons"]
            )
        )


def make_trust(reasons: Sequence[Reason]) -> Trust:
    """Return the verdict on these reasons, ordered by kind."""
    place = {kind: number for number, kind in enumerate(KINDS)}
    return Trust(tuple(sorted(reasons, key=lambda reason: place.get(reason.kind, len(KINDS)))))


def merge_trust(parts: Sequence[tuple[Trust, Sequence[int]]]) -> Trust:
    """Return the verdict about a whole batch from (verdict, rows in the batch) of its parts."""
    count = sum(len(rows) for _, rows in parts)
    found: dict[Reason, list[int]] = {}
    for trust, rows in parts:
        for reason in trust.reasons:
            own = rows if reason.samples is None else [rows[i] for i in reason.samples]
            about_all = reason if reason.samples is None else replace(reason, samples=None)
            found.setdefault(about_all, []).extend(own)
    return make_trust([_about(reason, samples, count) for reason, samples in found.items()])


def _renumber(reasons: Sequence[Reason], places: Callable[[int], list[int]], count: int) -> Trust:
    """The reasons about the samples that have a place, under their new numbers."""
    found = []
    for reason in reasons:
        if reason.samples is None:
            found.append(reason)
            continue
        samples = [place for sample in reason.samples for place in places(sample)]
        if samples:
            found.append(_about(reason, samples, count))
    return Trust(tuple(found))


def _about(reason: Reason, samples: Sequence[int], count: int) -> Reason:
    """The reason about these samples of `count`; None stands for all."""
    own = tuple(sorted(set(samples)))
    place = None if len(own) == count else own
    return reason if reason.samples == place else replace(reason, samples=place)


def _size(reason: Reason) -> float:
    return abs(reason.share or 0.0)


def _largest(reasons: Sequence[Reason]) -> str:
    """The largest of some findings of one kind, and how many samples have one."""
    worst = max(reasons, key=_size)
    if worst.samples is None:
        return worst.text
    samples = sorted({sample for one in reasons for sample in one.samples or ()})
    if len(samples) == 1:
        return f"Sample {samples[0]}: {worst.text}"
    return f"{len(samples)} samples, worst is sample {worst.samples[0]}: {worst.text}"
