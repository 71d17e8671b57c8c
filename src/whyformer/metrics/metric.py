"""What a metric says about itself: which way is better, its range, its paper, its convention."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from whyformer.attribution import Attribution
from whyformer.errors import InputError, OptionError
from whyformer.metrics.score import Score
from whyformer.registry import Registry, nearest

Compute = Callable[..., Score]
Better = Literal["higher", "lower", "neither"]

# What a metric may ask for beside the attribution; the evaluation knows where each comes from.
NEEDS = {
    "rerun": "a callable that runs the model on the tokens that are kept",
    "labels": "the true classes, (batch,)",
    "masks": "where the object is, (batch, height, width)",
    "rationales": "which words or tokens a person marked, (batch, words or tokens)",
    "regions": "where the object is, (batch, height, width) or (batch, tokens)",
    "other": "another attribution of the same inputs",
    "keep": "tokens that are never taken away, (batch, tokens)",
}

metrics: Registry[Metric] = Registry("metric", "whyformer.metrics")


@dataclass(frozen=True)
class Metric:
    """One metric: `compute(attribution, **needs, **options)` gives a score per sample.

    `range` is that of the values with the default options; None where it is open. `needs` are the
    arguments it cannot do without, `accepts` those it takes where they are given.
    """

    name: str
    title: str
    paper: str
    better: Better
    range: tuple[float | None, float | None]
    convention: str
    needs: tuple[str, ...]
    compute: Compute
    options: Mapping[str, Any] = field(default_factory=dict)  # option -> default
    kinds: Mapping[str, Any] = field(default_factory=dict)  # option -> its annotation
    accepts: tuple[str, ...] = ()
    measures: Callable[..., Mapping[str, Score]] | None = None  # all its values of option `measure`

    def __call__(self, attribution: Attribution, **given: Any) -> Score:
        self._fitting(given)
        return self.compute(attribution, **given)

    def _fitting(self, given: Mapping[str, Any]) -> None:
        """Nothing; raises where a need is missing, has no use here, or an option is wrong."""
        self.check({k: v for k, v in given.items() if k not in NEEDS or k in self.options})
        for name in self.needs:
            if given.get(name) is None:
                raise InputError(f"metric '{self.name}' needs {name}: {NEEDS[name]}")
        for name in given.keys() & NEEDS.keys():
            if name not in (*self.needs, *self.accepts):
                takes = ", ".join((*self.needs, *self.accepts)) or "the attribution only"
                raise InputError(f"metric '{self.name}' has no use for {name}; it takes {takes}")

    def each(self, attribution: Attribution, **given: Any) -> dict[str, Score]:
        """Every measure of a metric that has several, at the cost of one; else its score as ""."""
        if self.measures is None or "measure" in given:
            return {"": self(attribution, **given)}
        self._fitting(given)
        return dict(self.measures(attribution, **given))

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuses an option that this metric does not know, and names those it does."""
        for option, value in options.items():
            if option not in self.options:
                known = ", ".join(f"{k}={v!r}" for k, v in self.options.items()) or "none"
                raise OptionError(
                    f"metric '{self.name}' has no option {option!r}."
                    f"{nearest(option, self.options)} Its options: {known}."
                )
            if not _has_type(value, self.kinds[option]):
                raise OptionError(
                    f"{option}={value!r} of metric '{self.name}': expected"
                    f" {_type_text(self.kinds[option])}, such as {self.options[option]!r}"
                )


def metric(
    name: str,
    *,
    title: str,
    paper: str,
    better: Better,
    range: tuple[float | None, float | None],
    convention: str,
    measures: Callable[..., Mapping[str, Score]] | None = None,
) -> Callable[[Compute], Compute]:
    """Registers a function as a metric.

    Its arguments after the attribution are what it needs, those with a default what it accepts;
    its keyword-only arguments are its options.
    """

    def register(compute: Compute) -> Compute:
        parameters = list(inspect.signature(compute).parameters.values())
        options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        beside = [p for p in parameters[1:] if p.name not in options]
        unknown = [p.name for p in beside if p.name not in NEEDS]
        if unknown:
            raise ValueError(f"metric '{name}' asks for {unknown}; there is {', '.join(NEEDS)}")
        hints = get_type_hints(compute)
        metrics.register(
            name,
            Metric(
                name,
                title,
                paper,
                better,
                range,
                convention,
                tuple(p.name for p in beside if p.default is p.empty),
                compute,
                options,
                {key: hints[key] for key in options},
                tuple(p.name for p in beside if p.default is not p.empty),
                measures,
            ),
        )
        return compute

    return register


def _has_type(value: Any, hint: Any) -> bool:
    """Whether a value is what an option's annotation says; a list does for a tuple."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin in (Union, UnionType):
        return any(_has_type(value, one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple | list) and all(_has_type(one, inner[0]) for one in value)
    return type(value) is hint or (hint is float and type(value) is int)


def _type_text(hint: Any) -> str:
    """An option's annotation in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin in (Union, UnionType):
        return " or ".join(_type_text(one) for one in inner if one is not NoneType)
    if origin is tuple:
        return f"a tuple of {inner[0].__name__}s"
    return f"a {hint.__name__}"
