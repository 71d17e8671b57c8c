"""Comprehensiveness and sufficiency of ERASER (DeYoung et al., ACL 2020, sec. 4.2, eqs. 1-2)."""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.metrics import predictor, token_order
from whyformer.metrics.metric import Better, Compute, metric
from whyformer.metrics.predictor import Against, Predictor
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import Special

PAPER = "DeYoung et al.: ERASER, a Benchmark to Evaluate Rationalized NLP Models, ACL 2020"
BINS = (0.01, 0.05, 0.1, 0.2, 0.5)


def _probability_drop(name: str, with_rationale: bool, title: str, better: Better) -> Compute:
    """The metric of the probability lost with only, or without, the rationale."""
    remains = "with only" if with_rationale else "without"

    @metric(
        name,
        title=f"{name.capitalize()}: {title}",
        paper=PAPER,
        better=better,
        range=(-1.0, 1.0),
        convention=f"Probability lost {remains} the top 1, 5, 10, 20 and 50 % of the tokens, mean.",
    )
    def probability_drop(
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
        """Probability that the class loses with only, or without, its top tokens, (batch,).

        The value is the mean over the bins. Token counts are rounded up, so that the smallest
        share of a sentence is one token.
        """
        one = token_order.find_stream(attribution, stream)
        bins = token_order.valid_shares(bins, "bins")
        among = token_order.removable(one, keep, special)
        places = token_order.rank_tokens(token_order.finite_scores(one.scores, one.mask), among)
        full = predictor.kept_logits(rerun, one.name, one.mask)
        classes = predictor.followed_class(against, full, attribution, labels)
        before = predictor.at_class(full.softmax(1), classes)
        tops = [token_order.top_share(places, among, share, "up") for share in bins]
        kept = [(one.mask & ~among) | top if with_rationale else one.mask & ~top for top in tops]
        after = [
            predictor.at_class(logits.softmax(1), classes)
            for logits in predictor.kept_logits_each(rerun, one.name, kept)
        ]
        curve = torch.stack([before - probability for probability in after], 1)
        return Score(
            curve.mean(1),
            curve,
            bins,
            f"probability of the {against} class lost {remains} the top shares"
            f" {token_order.number_list(bins)} of '{one.name}', token counts rounded up, mean of"
            f" the bins; special tokens: {special}",
        )

    return probability_drop


comprehensiveness = _probability_drop(
    "comprehensiveness", False, "probability lost without the top tokens", "higher"
)
sufficiency = _probability_drop(
    "sufficiency", True, "probability lost with the top tokens alone", "lower"
)
