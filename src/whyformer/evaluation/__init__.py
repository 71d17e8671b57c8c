"""Methods measured on data: units of work that can be resumed, tables, and a report."""

from whyformer.evaluation.evaluate import evaluate
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan, method_specs, metric_specs
from whyformer.evaluation.results import ResultKey, Results
from whyformer.models.load import load_model

__all__ = [
    "MethodSpec",
    "MetricSpec",
    "Plan",
    "ResultKey",
    "Results",
    "evaluate",
    "load_model",
    "method_specs",
    "metric_specs",
]
