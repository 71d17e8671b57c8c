"""Area under the squared error of the logits while pruning, AU-MSE (Ali et al., ICML 2022)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.metrics.auac import STEPS
from whyformer.metrics.metric import metric
from whyformer.metrics.order import (
    Rounding,
    Special,
    area_under,
    find_stream,
    finite_scores,
    number_list,
    rank_tokens,
    removable,
    top_share,
    valid_shares,
)
from whyformer.metrics.predictor import Predictor, kept_logits, kept_logits_each
from whyformer.metrics.score import Score


@metric(
    "au_mse",
    title="Pruning: remove the least relevant tokens first; the logits should not change",
    paper="Ali et al.: XAI for Transformers, ICML 2022",
    better="lower",
    range=(0.0, None),
    convention="Area under the squared error of the logits, smallest |score| removed first.",
)
def au_mse(
    attribution: Attribution,
    rerun: Predictor,
    keep: Tensor | None = None,
    *,
    stream: str | None = None,
    steps: tuple[float, ...] = STEPS,
    order: Literal["absolute", "signed"] = "absolute",
    error: Literal["sum", "mean"] = "sum",
    special: Special = "remove",
    rounding: Rounding = "up",
) -> Score:
    """Area under the squared error of the logits while tokens are removed, (batch,).

    As in the authors' code: the smallest |score| is removed first, because evidence against a
    class changes the logits as much as evidence for it, and squares are summed over classes.
    """
    one = find_stream(attribution, stream)
    steps = valid_shares(steps)
    among = removable(one, keep, special)
    scores = finite_scores(one.scores, one.mask)
    places = rank_tokens(-(scores.abs() if order == "absolute" else scores), among)
    full = kept_logits(rerun, one.name, one.mask)
    kept = [one.mask & ~top_share(places, among, step, rounding) for step in steps]
    errors = []
    for logits in kept_logits_each(rerun, one.name, kept):
        squares = (logits - full).square()
        errors.append(squares.sum(1) if error == "sum" else squares.mean(1))
    curve = torch.stack(errors, 1)
    return Score(
        area_under(curve, steps),
        curve,
        steps,
        f"squared error of the logits ({error} over classes) while the least relevant tokens of"
        f" '{one.name}' ({order} scores) are removed first, shares {number_list(steps)}, token"
        f" counts rounded {rounding}; trapezoidal area divided by its width; special tokens:"
        f" {special}",
    )
