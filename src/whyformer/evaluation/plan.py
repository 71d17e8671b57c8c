"""What is to be measured: which methods, by which metrics, on which samples of what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whyformer.errors import OptionError
from whyformer.inputs.removal import FILL_TEXTS
from whyformer.methods import methods
from whyformer.metrics import metrics

TARGETS = ("predicted", "label")
SIGNED = ("conservation",)  # metrics of methods that can say "against"
# Left out of "all": it is the others' cost many times over.
SLOW = ("attention_flow",)


@dataclass(frozen=True)
class Contender:
    """A method and its options, under the name that the table shows."""

    label: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """What decides its scores."""
        return {"method": self.method, "options": dict(sorted(self.options.items()))}


@dataclass(frozen=True)
class Measure:
    """A metric and its options, under the name that the table shows."""

    label: str
    metric: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """What decides its values."""
        return {"metric": self.metric, "options": dict(sorted(self.options.items()))}

    @property
    def reruns(self) -> bool:
        """Whether it runs the model again."""
        return "rerun" in metrics[self.metric].needs


@dataclass(frozen=True)
class Plan:
    """One evaluation, apart from the model and the samples."""

    contenders: tuple[Contender, ...]
    measures: tuple[Measure, ...]
    targets: tuple[str, ...] = ("predicted",)
    fill: str | None = None
    seed: int = 0
    truncation: bool = False

    def measures_of(self, contender: Contender) -> tuple[Measure, ...]:
        """The metrics that make sense of a method: scores without a sign add up to no output."""
        unsigned = "nonnegative" in methods[contender.method].promises
        return tuple(m for m in self.measures if not (unsigned and m.metric in SIGNED))

    def __post_init__(self) -> None:
        for one in self.contenders:
            methods[one.method].check(one.options)
        for measure in self.measures:
            metrics[measure.metric].check(measure.options)
        if self.fill is not None and self.fill not in FILL_TEXTS:
            raise OptionError(f"fill={self.fill!r}: choose one of {', '.join(FILL_TEXTS)}")
        for target in self.targets:
            if target not in TARGETS:
                raise OptionError(f"target {target!r}: choose one of {', '.join(TARGETS)}")
        for kind, named in (("method", self.contenders), ("metric", self.measures)):
            labels = [one.label for one in named]
            for label in labels:
                if labels.count(label) > 1:
                    raise OptionError(f"{kind} {label!r} is named twice; give it once")
            if not labels:
                raise OptionError(f"there is no {kind} to evaluate")
        if not any(self.measures_of(one) for one in self.contenders):
            raise OptionError(
                "conservation is for methods whose scores have a sign, and none of these has:"
                f" {', '.join(one.label for one in self.contenders)}; name others, or other metrics"
            )


def contenders(
    names: Iterable[str], options: Mapping[str, Mapping[str, Any]] | None = None, seed: int = 0
) -> tuple[Contender, ...]:
    """The named methods; "all" is every method but attention flow, which takes its time.

    Options are by method. Methods that draw lots draw them by the seed.
    """
    listed = list(names)
    if "all" in listed:
        every = [name for name in methods if name not in SLOW]
        at = listed.index("all")
        listed = [*listed[:at], *(n for n in every if n not in listed), *listed[at + 1 :]]
    given = dict(options or {})
    for name in given:
        if name not in listed:
            raise OptionError(f"options are given for method {name!r}, which is not evaluated")
    found = []
    for name in listed:
        chosen = dict(given.get(name, {}))
        if "seed" in methods[name].options:
            chosen.setdefault("seed", seed)
        found.append(Contender(name, name, chosen))
    return tuple(found)


def measures(
    names: Iterable[str],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    fill: str | None = None,
) -> tuple[Measure, ...]:
    """The named metrics, options by metric.

    Where tokens are dropped, [CLS] and its like stay unless asked otherwise: a model without the
    token that its head reads is another model.
    """
    listed = list(names)
    given = {name: dict(chosen) for name, chosen in (options or {}).items()}
    for name in given:
        if name not in listed:
            raise OptionError(f"options are given for metric {name!r}, which is not evaluated")
    found = []
    for name in listed:
        known = metrics[name]
        chosen = given.get(name, {})
        known.check(chosen)
        if fill in (None, "drop") and "special" in known.options:
            chosen.setdefault("special", "keep")
        found.append(Measure(name, name, chosen))
    return tuple(found)
