"""Methods measured on data: units of work that can be resumed, tables, and a report."""

from whyformer.evaluation.evaluate import evaluate
from whyformer.evaluation.plan import Contender, Measure, Plan, contenders, measures
from whyformer.evaluation.results import Cell, Results
from whyformer.models.load import load_model

__all__ = [
    "Cell",
    "Contender",
    "Measure",
    "Plan",
    "Results",
    "contenders",
    "evaluate",
    "load_model",
    "measures",
]
