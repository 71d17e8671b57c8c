"""Area under the activation curve, AUAC (Ali et al., ICML 2022, sec. 5.2)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.metrics import predictor, token_order
from whyformer.metrics.metric import metric
from whyformer.metrics.predictor import Against, Predictor
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import Rounding, Special

STEPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@metric(
    "auac",
    title="Activation: add the most relevant tokens first to an empty input",
    paper="Ali et al.: XAI for Transformers, ICML 2022",
    better="higher",
    range=(0.0, 1.0),
    convention="Area under the probability of the explained class, most relevant added first.",
)
def auac(
    attribution: Attribution,
    rerun: Predictor,
    labels: Tensor | None = None,
    keep: Tensor | None = None,
    *,
    stream: str | None = None,
    steps: tuple[float, ...] = STEPS,
    against: Against = "target",
    measure: Literal["probability", "logit"] = "probability",
    special: Special = "remove",
    rounding: Rounding = "up",
) -> Score:
    """Area under the class's curve while tokens are added, the most relevant first, (batch,).

    As in the authors' code: signed scores, eleven shares, token counts rounded up, [CLS] and [SEP]
    removed like any other token.
    """
    one = token_order.find_stream(attribution, stream)
    steps = token_order.valid_shares(steps)
    among = token_order.removable(one, keep, special)
    places = token_order.rank_tokens(token_order.finite_scores(one.scores, one.mask), among)
    classes = predictor.followed_class(
        against, predictor.kept_logits(rerun, one.name, one.mask), attribution, labels
    )
    kept = [
        (one.mask & ~among) | token_order.top_share(places, among, step, rounding) for step in steps
    ]
    heights = [
        predictor.at_class(logits.softmax(1) if measure == "probability" else logits, classes)
        for logits in predictor.kept_logits_each(rerun, one.name, kept)
    ]
    curve = torch.stack(heights, 1)
    return Score(
        token_order.area_under(curve, steps),
        curve,
        steps,
        f"{measure} of the {against} class while the most relevant tokens of '{one.name}' are"
        f" added first to an empty input, shares {token_order.number_list(steps)}, token counts"
        f" rounded {rounding}; trapezoidal area divided by its width; special tokens: {special}",
    )
