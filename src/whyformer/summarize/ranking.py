"""The parts that speak most for and against each class, with intervals and counter-examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from whyformer.statistics.bootstrap import Bootstrap, Estimate
from whyformer.summarize.parts import ExplainedSample

RANKED = 50  # parts of a class on each side
CONSIDERED = 4 * RANKED  # by their mean, before intervals are computed


@dataclass(frozen=True)
class RankedPart:
    """A part of the inputs, and what it does for one class.

    Args:
        part: The word, sentence or position.
        samples: In how many samples of the class it occurs.
        share: Its mean signed share of |relevance| in these samples.
        supports: The share of these samples in which it speaks for the class.
        example: The sample in which it speaks most for its side.
        counter: The sample in which it speaks most for the other side; None if there is none.
    """

    part: str
    samples: int
    share: Estimate
    supports: float
    example: str
    counter: str | None


@dataclass(frozen=True)
class ClassRanking:
    """The parts that speak for a class and those that speak against it, the strongest first."""

    label: str
    samples: int
    supporting: tuple[RankedPart, ...]
    opposing: tuple[RankedPart, ...]


def rank_parts(
    samples: Sequence[ExplainedSample], bootstrap: Bootstrap, min_count: int
) -> tuple[ClassRanking, ...]:
    """Return the ranking of every explained class, the most frequent class first.

    Only parts in at least `min_count` samples of a class are ranked. The order is that of the end
    of the interval that is nearer to 0, so that a rare part needs more to come first.
    """
    by_class: dict[str, list[ExplainedSample]] = {}
    for sample in samples:
        by_class.setdefault(sample.label, []).append(sample)
    ordered = sorted(by_class.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(_rank_class(label, own, bootstrap, min_count) for label, own in ordered)


def _rank_class(
    label: str, samples: Sequence[ExplainedSample], bootstrap: Bootstrap, min_count: int
) -> ClassRanking:
    found: dict[str, list[tuple[float, str]]] = {}
    for sample in samples:
        for part, share in sample.shares.items():
            found.setdefault(part, []).append((share, sample.sample))
    frequent = {part: places for part, places in found.items() if len(places) >= min_count}
    supporting, opposing = (_rank_side(frequent, bootstrap, sign) for sign in (1, -1))
    return ClassRanking(label, len(samples), supporting, opposing)


def _rank_side(
    found: Mapping[str, Sequence[tuple[float, str]]], bootstrap: Bootstrap, sign: int
) -> tuple[RankedPart, ...]:
    """The parts with a mean share of this sign."""
    means = {part: sign * fmean(share for share, _ in places) for part, places in found.items()}
    strongest = sorted((part for part in means if means[part] > 0), key=lambda p: (-means[p], p))
    ranked = [_ranked_part(p, found[p], bootstrap, sign) for p in strongest[:CONSIDERED]]
    near = {r.part: r.share.low if sign > 0 else -r.share.high for r in ranked}
    return tuple(sorted(ranked, key=lambda r: (-near[r.part], r.part))[:RANKED])


def _ranked_part(
    part: str, places: Sequence[tuple[float, str]], bootstrap: Bootstrap, sign: int
) -> RankedPart:
    shares = [share for share, _ in places]
    best = max(places, key=lambda place: sign * place[0])
    worst = min(places, key=lambda place: sign * place[0])
    return RankedPart(
        part,
        len(places),
        bootstrap.mean(shares),
        fmean(share > 0 for share in shares),
        best[1],
        worst[1] if sign * worst[0] < 0 else None,
    )


@dataclass(frozen=True)
class PartDifference:
    """How differently two models use a part, over samples for which both explain the same class."""

    part: str
    samples: int
    first: float
    second: float
    difference: Estimate  # of the first model's share minus the second's


def compare_models(
    first: Sequence[ExplainedSample],
    second: Sequence[ExplainedSample],
    bootstrap: Bootstrap,
    min_count: int,
) -> tuple[PartDifference, ...]:
    """Return the parts that two models use most differently, the largest difference first."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for one, other in zip(first, second, strict=True):
        if one.label != other.label:
            continue
        for part in one.shares.keys() & other.shares.keys():
            pairs.setdefault(part, []).append((one.shares[part], other.shares[part]))
    frequent = {part: both for part, both in pairs.items() if len(both) >= min_count}
    gap = {part: abs(fmean(a - b for a, b in both)) for part, both in frequent.items()}
    widest = sorted(gap, key=lambda part: (-gap[part], part))[:RANKED]
    return tuple(
        PartDifference(
            part,
            len(frequent[part]),
            fmean(a for a, _ in frequent[part]),
            fmean(b for _, b in frequent[part]),
            bootstrap.mean([a - b for a, b in frequent[part]]),
        )
        for part in widest
    )
