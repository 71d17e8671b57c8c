"""The plan of an evaluation: its methods, metrics, targets and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whyformer.errors import OptionError
from whyformer.inputs.removal import FILL_TEXTS
from whyformer.methods import methods
from whyformer.metrics import metrics

TARGETS = ("predicted", "label")


@dataclass(frozen=True)
class MethodSpec:
    """A method and its options, with its label in the tables."""

    label: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that decides its scores."""
        return {"method": self.method, "options": dict(sorted(self.options.items()))}


@dataclass(frozen=True)
class MetricSpec:
    """A metric and its options, with its label in the tables."""

    label: str
    metric: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that decides its values."""
        return {"metric": self.metric, "options": dict(sorted(self.options.items()))}


@dataclass(frozen=True)
class Plan:
    """One evaluation, apart from the model and the samples.

    Args:
        methods: The methods to evaluate.
        metrics: The metrics to evaluate them by.
        targets: Which classes to explain: "predicted", "label" or both.
        fill: What replaces removed tokens; None for the default of each stream.
        seed: Seed of the random choices.
        truncation: Whether to cut texts that are longer than the model takes.
        threads: Threads of torch in each worker. Another number gives slightly other values, so
            it is the same for every engine, and not the machine's default.

    Raises:
        OptionError: An option, target or fill is unknown, or there is nothing to evaluate.
    """

    methods: tuple[MethodSpec, ...]
    metrics: tuple[MetricSpec, ...]
    targets: tuple[str, ...] = ("predicted",)
    fill: str | None = None
    seed: int = 0
    truncation: bool = False
    threads: int = 1

    def metrics_for(self, method: MethodSpec) -> tuple[MetricSpec, ...]:
        """The metrics that apply to a method: some need scores with a sign."""
        signed = methods[method.method].signed
        return tuple(one for one in self.metrics if signed or not metrics[one.metric].signed)

    def __post_init__(self) -> None:
        if isinstance(self.threads, bool) or self.threads < 1:
            raise OptionError(
                f"threads={self.threads!r} is not a number of threads",
                argument="threads",
                remedy="Pass a whole number from 1",
            )
        for one in self.methods:
            methods[one.method].check(one.options)
        for spec in self.metrics:
            metrics[spec.metric].check(spec.options)
        if self.fill is not None and self.fill not in FILL_TEXTS:
            raise OptionError(
                f"fill={self.fill!r} is unknown",
                argument="fill",
                remedy=f"Choose one of {', '.join(FILL_TEXTS)}",
            )
        for target in self.targets:
            if target not in TARGETS:
                raise OptionError(
                    f"target {target!r} is unknown",
                    argument="targets",
                    remedy=f"Choose one of {', '.join(TARGETS)}",
                )
        for kind, specs in (("method", self.methods), ("metric", self.metrics)):
            labels = [one.label for one in specs]
            for label in labels:
                if labels.count(label) > 1:
                    raise OptionError(
                        f"{kind} {label!r} is named twice",
                        argument=f"{kind}s",
                        remedy="Name each once",
                    )
            if not labels:
                raise OptionError(
                    f"there is no {kind} to evaluate",
                    argument=f"{kind}s",
                    remedy=f"Name at least one {kind}",
                )
        if not any(self.metrics_for(one) for one in self.methods):
            raise OptionError(
                f"{', '.join(one.label for one in self.metrics)} only applies to methods whose"
                " scores have a sign, and none of these has:"
                f" {', '.join(one.label for one in self.methods)}",
                argument="methods",
                remedy="Name other methods, or other metrics",
            )


def method_specs(
    names: Iterable[str], options: Mapping[str, Mapping[str, Any]] | None = None, seed: int = 0
) -> tuple[MethodSpec, ...]:
    """Return the named methods for a plan.

    Args:
        names: Names of methods; "all" stands for every method that is not slow.
        options: Options by the name of their method.
        seed: Seed of methods that draw random numbers.

    Raises:
        UnknownNameError: There is no such method.
        OptionError: Options are given for a method that is not named.

    Example:
        >>> [spec.method for spec in method_specs(["gae", "random"])]
        ['gae', 'random']
    """
    selected = list(names)
    if "all" in selected:
        every = [name for name, method in methods.items() if method.in_all]
        at = selected.index("all")
        selected = [*selected[:at], *(n for n in every if n not in selected), *selected[at + 1 :]]
    by_name = _options_by_name("method", selected, options)
    found = []
    for name in selected:
        chosen = by_name.get(name, {})
        if "seed" in methods[name].options:
            chosen.setdefault("seed", seed)
        found.append(MethodSpec(name, name, chosen))
    return tuple(found)


def metric_specs(
    names: Iterable[str],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    fill: str | None = None,
) -> tuple[MetricSpec, ...]:
    """Return the named metrics for a plan.

    If removed tokens are dropped, special tokens such as [CLS] are kept by default: without the
    token that its head reads, a model cannot be compared with itself.

    Args:
        names: Names of metrics.
        options: Options by the name of their metric.
        fill: The fill of the plan.

    Raises:
        UnknownNameError: There is no such metric.
        OptionError: An option is wrong, or is given for a metric that is not named.

    Example:
        >>> metric_specs(["auac"])[0].options
        {'special': 'keep'}
    """
    selected = list(names)
    by_name = _options_by_name("metric", selected, options)
    found = []
    for name in selected:
        known, chosen = metrics[name], by_name.get(name, {})
        known.check(chosen)
        if fill in (None, "drop") and "special" in known.options:
            chosen.setdefault("special", "keep")
        found.append(MetricSpec(name, name, chosen))
    return tuple(found)


def _options_by_name(
    kind: str, names: Iterable[str], options: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, dict[str, Any]]:
    """A copy of the options; raise OptionError if they are for something that is not named."""
    for name in options or {}:
        if name not in names:
            raise OptionError(
                f"options are given for {kind} {name!r}, which is not evaluated",
                argument="options",
                remedy=f"Add {name!r} to the {kind}s, or leave out its options",
            )
    return {name: dict(chosen) for name, chosen in (options or {}).items()}
