"""What an experiment is: parts with a model, data, methods and metrics; and the shared metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whyformer.evaluation.plan import MethodSpec, MetricSpec
from whyformer.metrics.perturbation import IMAGE_STEPS

AUAC = MetricSpec("auac", "auac", {"against": "target"})
AU_MSE = MetricSpec("au_mse", "au_mse", {})
CONSERVATION = MetricSpec("conservation", "conservation", {})
# The authors' area: shares 0 to 0.9 with the unperturbed image at 0, in per cent and not divided
# by 0.9. For their script's nine shares pass `steps` from 0.1, for the mean height `normalised`.
AUTHORS_AREA = {"against": "label", "level": "pixel", "steps": IMAGE_STEPS, "normalised": False,
                "percent": True}  # fmt: skip


def method_rows(methods: Mapping[str, tuple[str, Mapping[str, Any]]]) -> tuple[MethodSpec, ...]:
    """Return the rows of a table, from the method and the options of each label."""
    return tuple(MethodSpec(label, method, options) for label, (method, options) in methods.items())


@dataclass(frozen=True)
class ExperimentPart:
    """One column of the paper's table, or several: a model, data, metrics, published figures."""

    name: str
    title: str
    model: str  # a recipe, a bundled model, or a folder in the data folder
    data: str  # "name:place" in the data folder; empty for the data of the recipe or the model
    split: str | None
    rows: tuple[MethodSpec, ...]
    measures: tuple[MetricSpec, ...]
    targets: tuple[str, ...]
    fill: str | None
    limit: int | None = None
    drawn: bool = False  # questions about shapes, drawn now instead of the bundled ones
    confident: float | None = None  # use images that the model knows with this probability
    # Published figures by row, under "metric", or "metric, target" if they hold for one target.
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """One paper's evaluation, or our own."""

    name: str
    paper: str
    parts: tuple[ExperimentPart, ...]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # experiments of the paper that cannot be run here
    notes_title: str = "Differences from the paper"
    concludes: bool = False  # whether its methods are compared pair by pair over all parts
