"""Probability drops for ERASER's two metrics (DeYoung et al., ACL 2020, sec. 4.2, eqs. 1-2)."""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.metrics.order import (
    Special,
    find_stream,
    finite_scores,
    number_list,
    rank_tokens,
    removable,
    top_share,
    valid_shares,
)
from whyformer.metrics.predictor import (
    Against,
    Predictor,
    at_class,
    followed_class,
    kept_logits,
    kept_logits_each,
)
from whyformer.metrics.score import Score

PAPER = "DeYoung et al.: ERASER, a Benchmark to Evaluate Rationalized NLP Models, ACL 2020"
BINS = (0.01, 0.05, 0.1, 0.2, 0.5)


def probability_drops(
    attribution: Attribution,
    rerun: Predictor,
    labels: Tensor | None,
    keep: Tensor | None,
    stream: str | None,
    bins: tuple[float, ...],
    against: Against,
    special: Special,
    only_rationale: bool,
) -> Score:
    """Probability lost with only, or without, the top shares of the tokens, mean, (batch,).

    Token counts are rounded up, so that the smallest share of a sentence is one token.
    """
    one = find_stream(attribution, stream)
    bins = valid_shares(bins, "bins")
    among = removable(one, keep, special)
    places = rank_tokens(finite_scores(one.scores, one.mask), among)
    full = kept_logits(rerun, one.name, one.mask)
    classes = followed_class(against, full, attribution, labels)
    before = at_class(full.softmax(1), classes)
    tops = [top_share(places, among, share, "up") for share in bins]
    kept = [(one.mask & ~among) | top if only_rationale else one.mask & ~top for top in tops]
    left = [
        at_class(logits.softmax(1), classes) for logits in kept_logits_each(rerun, one.name, kept)
    ]
    curve = torch.stack([before - one_left for one_left in left], 1)
    return Score(
        curve.mean(1),
        curve,
        bins,
        f"probability of the {against} class lost {'with only' if only_rationale else 'without'}"
        f" the top shares {number_list(bins)} of '{one.name}', token counts rounded up, mean of the"
        f" bins; special tokens: {special}",
    )
