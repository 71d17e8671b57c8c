"""The registry of metrics, and what each declares: direction, range, paper, needs and options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.metrics.needs import LABELS, NEEDS, Need
from whyformer.metrics.score import Score
from whyformer.options import check_options, declared_options
from whyformer.registry import Registry

Compute = Callable[..., Score]
ComputeAll = Callable[..., Mapping[str, Score]]
Better = Literal["higher", "lower", "neither"]

metrics: Registry[Metric] = Registry("metric", "whyformer.metrics")


@dataclass(frozen=True)
class Metric:
    """One metric: `compute(attribution, **needs, **options)` returns a score per sample.

    The fields up to `convention`, `signed` and `compute_all` are the arguments of `metric`.

    Args:
        needs: The arguments that must be passed.
        accepts: The arguments that may be passed.
        declared: What is known about each of these arguments.
        options: The default of each option.
        kinds: The type of each option.
        compute: The function itself.
    """

    name: str
    title: str
    paper: str
    better: Better
    range: tuple[float | None, float | None]
    convention: str
    needs: tuple[str, ...]
    compute: Compute
    options: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, Any] = field(default_factory=dict)
    accepts: tuple[str, ...] = ()
    declared: Mapping[str, Need] = field(default_factory=dict)
    signed: bool = False
    compute_all: ComputeAll | None = None

    def __call__(self, attribution: Attribution, **arguments: Any) -> Score:
        """Return the score of an attribution.

        Args:
            attribution: What to score.
            **arguments: What the metric needs, and its options.

        Raises:
            InputError: A need is missing, or the metric does not take an argument.
            OptionError: An option is unknown or has a wrong value.
        """
        self._check_arguments(arguments)
        return self.compute(attribution, **arguments)

    def scores(self, attribution: Attribution, **arguments: Any) -> dict[str, Score]:
        """Return the score of every measure by name; the name is "" if there are no measures."""
        if self.compute_all is None or "measure" in arguments:
            return {"": self(attribution, **arguments)}
        self._check_arguments(arguments)
        return dict(self.compute_all(attribution, **arguments))

    def measures(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the scores that `scores` returns with these options."""
        if self.compute_all is None or "measure" in options:
            return ("",)
        return get_args(self.kinds["measure"])

    def required(self, options: Mapping[str, Any]) -> tuple[Need, ...]:
        """What must be passed with these options."""
        found = [self.declared[name] for name in self.needs]
        if options.get("against") == "label" and LABELS not in found:
            found.append(LABELS)
        return tuple(found)

    @property
    def reruns(self) -> bool:
        """Whether it runs the model again."""
        return any(self.declared[name].source == "model" for name in self.needs)

    @property
    def compares_methods(self) -> bool:
        """Whether it compares the attributions of two methods."""
        return any(self.declared[name].source == "methods" for name in self.needs)

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise OptionError if an option is unknown or its value has a wrong type."""
        check_options(f"metric '{self.name}'", options, self.options, self.kinds)

    def _check_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Raise if a need is missing, an argument is not taken, or an option is wrong."""
        known = {**NEEDS, **self.declared}
        self.check({k: v for k, v in arguments.items() if k not in known or k in self.options})
        for name in self.needs:
            if arguments.get(name) is None:
                raise InputError(
                    f"metric '{self.name}' needs {name}: {self.declared[name].description}",
                    argument=name,
                )
        for name in arguments.keys() & known.keys():
            if name not in (*self.needs, *self.accepts):
                takes = ", ".join((*self.needs, *self.accepts)) or "the attribution only"
                raise InputError(
                    f"metric '{self.name}' does not take {name}; it takes {takes}", argument=name
                )


def metric(
    name: str,
    *,
    title: str,
    paper: str,
    better: Better,
    range: tuple[float | None, float | None],
    convention: str,
    needs: tuple[Need, ...] = (),
    signed: bool = False,
    compute_all: ComputeAll | None = None,
) -> Callable[[Compute], Compute]:
    """Register a function as a metric.

    Its arguments after the attribution are its needs; those with a default are optional. Its
    keyword-only arguments are its options.

    Args:
        name: The name in the registry.
        title: What it measures, in one line.
        paper: Where it comes from.
        better: Which direction is better.
        range: Lowest and highest value with the default options; None if unbounded.
        convention: How the value is computed, in one sentence.
        needs: Needs that are not in `whyformer.metrics.needs`, or that replace one of them.
        signed: Whether it only applies to methods whose scores have a sign.
        compute_all: Returns the scores for every value of option `measure` at the cost of one.

    Raises:
        ValueError: An argument is no declared need.
    """
    known = {**NEEDS, **{need.name: need for need in needs}}

    def register(compute: Compute) -> Compute:
        parameters = list(inspect.signature(compute).parameters.values())
        options, kinds = declared_options(compute)
        arguments = [p for p in parameters[1:] if p.name not in options]
        unknown = [p.name for p in arguments if p.name not in known]
        if unknown:
            raise ValueError(
                f"metric '{name}' needs {unknown}, which is not declared; pass needs=(Need(...),)"
                f" or use one of {', '.join(known)}"
            )
        metrics.register(
            name,
            Metric(
                name=name,
                title=title,
                paper=paper,
                better=better,
                range=range,
                convention=convention,
                needs=tuple(p.name for p in arguments if p.default is p.empty),
                accepts=tuple(p.name for p in arguments if p.default is not p.empty),
                declared={p.name: known[p.name] for p in arguments},
                signed=signed,
                options=options,
                kinds=kinds,
                compute=compute,
                compute_all=compute_all,
            ),
        )
        return compute

    return register
