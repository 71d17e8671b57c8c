"""Metrics of how faithful an attribution is, one file each; a new file registers itself."""

from whyformer.engine.rerun import Rerun
from whyformer.metrics.metric import Metric, metric, metrics
from whyformer.metrics.needs import Need
from whyformer.metrics.predictor import Predictor
from whyformer.metrics.score import Score, combine_scores, interval

__all__ = [
    "Metric",
    "Need",
    "Predictor",
    "Rerun",
    "Score",
    "combine_scores",
    "interval",
    "metric",
    "metrics",
]
