"""Area under the squared error of the logits while pruning, AU-MSE (Ali et al., ICML 2022)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.metrics import predictor, token_order
from whyformer.metrics.auac import STEPS
from whyformer.metrics.metric import metric
from whyformer.metrics.predictor import Predictor
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import Rounding, Special


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
    one = token_order.find_stream(attribution, stream)
    steps = token_order.valid_shares(steps)
    among = token_order.removable(one, keep, special)
    scores = token_order.finite_scores(one.scores, one.mask)
    places = token_order.rank_tokens(-(scores.abs() if order == "absolute" else scores), among)
    full = predictor.kept_logits(rerun, one.name, one.mask)
    kept = [one.mask & ~token_order.top_share(places, among, step, rounding) for step in steps]
    errors = []
    for logits in predictor.kept_logits_each(rerun, one.name, kept):
        squares = (logits - full).square()
        errors.append(squares.sum(1) if error == "sum" else squares.mean(1))
    curve = torch.stack(errors, 1)
    return Score(
        token_order.area_under(curve, steps),
        curve,
        steps,
        f"squared error of the logits ({error} over classes) while the least relevant tokens of"
        f" '{one.name}' ({order} scores) are removed first, shares"
        f" {token_order.number_list(steps)}, token counts rounded {rounding}; trapezoidal area"
        f" divided by its width; special tokens: {special}",
    )
