"""Evaluate methods on a dataset: resumable runs, tables and a report."""

from whyformer.batching.progress import Progress
from whyformer.evaluation.evaluate import RunOptions, evaluate, run_evaluation
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan, method_specs, metric_specs
from whyformer.evaluation.results import ResultKey, Results
from whyformer.models.load import load_model

__all__ = [
    "MethodSpec",
    "MetricSpec",
    "Plan",
    "Progress",
    "ResultKey",
    "Results",
    "RunOptions",
    "evaluate",
    "load_model",
    "method_specs",
    "metric_specs",
    "run_evaluation",
]
