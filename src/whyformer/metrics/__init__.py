"""Measures of how faithful an attribution is, one file each; they register by existing."""

from whyformer.metrics.bootstrap import interval
from whyformer.metrics.metric import Metric, metric, metrics
from whyformer.metrics.rerun import Predictor
from whyformer.metrics.score import Score, combine_scores

__all__ = ["Metric", "Predictor", "Score", "combine_scores", "interval", "metric", "metrics"]
