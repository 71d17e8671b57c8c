"""Units of work (one sample, method, target and metric), and the ids of their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whyformer.evaluation import code_version
from whyformer.evaluation.fingerprint import of_facts, of_loaded
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan
from whyformer.methods import methods
from whyformer.metrics import metrics
from whyformer.models.load import Loaded
from whyformer.models.signature import device_and_dtype
from whyformer.models.versions import version_of

FORMAT = 4  # increase it if the meaning of a column changes
VERSIONS = ("whyformer", "torch", "transformers", "tokenizers")

ResultRow = dict[str, Any]


@dataclass(frozen=True)
class EvaluatedModel:
    """The model, its fingerprint, and how it runs: its device and its kind of attention."""

    loaded: Loaded
    fingerprint: str
    runs_on: str = ""

    @classmethod
    def of(cls, loaded: Loaded) -> EvaluatedModel:
        """Return the model with its fingerprint."""
        return cls(loaded, of_loaded(loaded), runs_on(loaded))


def runs_on(loaded: Loaded) -> str:
    """The device and the kind of attention of a model."""
    device = device_and_dtype(loaded.module)[0].type
    attention = getattr(getattr(loaded.module, "config", None), "_attn_implementation", None)
    return f"{device} {attention}"


def unit_id(
    model: EvaluatedModel, sample: str, method: MethodSpec, target: str, facts: Any, plan: Plan
) -> str:
    """The name of one unit: everything that decides its value.

    That is the model, the sample's fingerprint, the method, the target, the metric's facts, the
    code of all of these, and the versions of the packages that compute.
    """
    return of_facts(
        {
            "format": FORMAT,
            "versions": versions(),
            "code": code_version.of_shared_code(),
            "model": model.fingerprint,
            "runs on": model.runs_on,
            "threads": plan.threads,
            "sample": sample,
            "method": method_facts(method),
            "target": target,
            "metric": facts,
            "fill": plan.fill,
            "seed": plan.seed,
            "truncation": plan.truncation,
        }
    )


def versions() -> dict[str, str]:
    """The versions of the packages that decide the values."""
    return {package: version_of(package) for package in VERSIONS}


def method_facts(method: MethodSpec) -> dict[str, Any]:
    """Everything that decides a method's scores, its code included."""
    return {**method.facts, "code": code_version.of_function(methods[method.method].compute)}


def _metric_facts(spec: MetricSpec) -> dict[str, Any]:
    """Everything that decides a metric's values, its code included."""
    metric = metrics[spec.metric]
    return {**spec.facts, "code": code_version.of_function(metric.compute_all or metric.compute)}


def row_facts(spec: MetricSpec, plan: Plan) -> dict[str, dict[str, Any]]:
    """The rows of one metric for a sample: by label in the table, what decides their value."""
    metric = metrics[spec.metric]
    facts = _metric_facts(spec)
    if metric.compares_methods:
        return {
            f"{spec.label}/{other.label}": facts | {"other": method_facts(other)}
            for other in plan.methods
        }
    return {
        row_label(spec, measure): facts | ({"part": measure} if measure else {})
        for measure in metric.measures(spec.options)
    }


def row_label(spec: MetricSpec, part: str) -> str:
    """The label of a metric, or of one of its parts, in the table."""
    return f"{spec.label}/{part}" if part else spec.label
