"""Units of work (one sample, method, target and metric), and the ids of their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whyformer.evaluation.fingerprint import of_facts
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan
from whyformer.metrics import metrics
from whyformer.models.load import Loaded

FORMAT = 3  # increase it if the same settings would give other numbers

ResultRow = dict[str, Any]


@dataclass(frozen=True)
class EvaluatedModel:
    """The model, and its fingerprint."""

    loaded: Loaded
    fingerprint: str


def unit_id(
    model: EvaluatedModel, sample: str, method: MethodSpec, target: str, facts: Any, plan: Plan
) -> str:
    """The name of one unit: the sample's fingerprint, the method, the target, a metric's facts."""
    return of_facts(
        {
            "format": FORMAT,
            "model": model.fingerprint,
            "sample": sample,
            "method": method.facts,
            "target": target,
            "metric": facts,
            "fill": plan.fill,
            "seed": plan.seed,
            "truncation": plan.truncation,
        }
    )


def row_facts(spec: MetricSpec, plan: Plan) -> dict[str, dict[str, Any]]:
    """The rows of one metric for a sample: by label in the table, what decides their value."""
    metric = metrics[spec.metric]
    if metric.compares_methods:
        return {
            f"{spec.label}/{other.label}": spec.facts | {"other": other.facts}
            for other in plan.methods
        }
    return {
        row_label(spec, measure): spec.facts | ({"part": measure} if measure else {})
        for measure in metric.measures(spec.options)
    }


def row_label(spec: MetricSpec, part: str) -> str:
    """The label of a metric, or of one of its parts, in the table."""
    return f"{spec.label}/{part}" if part else spec.label
