"""Area under the activation curve, AUAC (Ali et al., ICML 2022, sec. 5.2)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Attribution
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
from whyformer.metrics.predictor import (
    Against,
    Predictor,
    at_class,
    followed_class,
    kept_logits,
    kept_logits_each,
)
from whyformer.metrics.score import Score

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
    one = find_stream(attribution, stream)
    steps = valid_shares(steps)
    among = removable(one, keep, special)
    places = rank_tokens(finite_scores(one.scores, one.mask), among)
    classes = followed_class(against, kept_logits(rerun, one.name, one.mask), attribution, labels)
    kept = [(one.mask & ~among) | top_share(places, among, step, rounding) for step in steps]
    heights = [
        at_class(logits.softmax(1) if measure == "probability" else logits, classes)
        for logits in kept_logits_each(rerun, one.name, kept)
    ]
    curve = torch.stack(heights, 1)
    return Score(
        area_under(curve, steps),
        curve,
        steps,
        f"{measure} of the {against} class while the most relevant tokens of '{one.name}' are"
        f" added first to an empty input, shares {number_list(steps)}, token counts rounded"
        f" {rounding}; trapezoidal area divided by its width; special tokens: {special}",
    )
