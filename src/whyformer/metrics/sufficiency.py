"""Sufficiency: probability lost with the rationale alone (DeYoung et al., ACL 2020, eq. 2)."""

from __future__ import annotations

from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.metrics.eraser import BINS, PAPER, probability_drops
from whyformer.metrics.metric import metric
from whyformer.metrics.order import Special
from whyformer.metrics.predictor import Against, Predictor
from whyformer.metrics.score import Score


@metric(
    "sufficiency",
    title="Sufficiency: probability lost with the top tokens alone",
    paper=PAPER,
    better="lower",
    range=(-1.0, 1.0),
    convention="Probability lost with only the top 1, 5, 10, 20 and 50 % of the tokens, mean.",
)
def sufficiency(
    attribution: Attribution,
    rerun: Predictor,
    labels: Tensor | None = None,
    keep: Tensor | None = None,
    *,
    stream: str | None = None,
    bins: tuple[float, ...] = BINS,
    against: Against = "predicted",
    special: Special = "keep",
) -> Score:
    """Probability that the class loses with only its top tokens, mean over the bins, (batch,)."""
    return probability_drops(attribution, rerun, labels, keep, stream, bins, against, special, True)
