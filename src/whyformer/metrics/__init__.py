"""Measures of how faithful an attribution is, one file each; they register by existing."""

from whyformer.metrics.bootstrap import interval
from whyformer.metrics.metric import Metric, metric, metrics
from whyformer.metrics.rerun import Rerun
from whyformer.metrics.score import Score, combined

__all__ = ["Metric", "Rerun", "Score", "combined", "interval", "metric", "metrics"]
