"""Comprehensiveness: probability lost without the rationale (DeYoung et al., ACL 2020, eq. 1)."""

from __future__ import annotations

from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.metrics.eraser import BINS, PAPER, probability_drops
from whyformer.metrics.metric import metric
from whyformer.metrics.order import Special
from whyformer.metrics.predictor import Against, Predictor
from whyformer.metrics.score import Score


@metric(
    "comprehensiveness",
    title="Comprehensiveness: probability lost without the top tokens",
    paper=PAPER,
    better="higher",
    range=(-1.0, 1.0),
    convention="Probability lost without the top 1, 5, 10, 20 and 50 % of the tokens, mean.",
)
def comprehensiveness(
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
    """Probability that the class loses without its top tokens, mean over the bins, (batch,)."""
    return probability_drops(
        attribution, rerun, labels, keep, stream, bins, against, special, False
    )
