"""Partial LRP: the relevance of the last attention map (Voita et al. 2019; CVPR 2021)."""

from __future__ import annotations

from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.methods.method import choose, method


@method(
    "partial_lrp",
    title="LRP relevance of the last layer's attention map",
    paper="Voita et al. 2019; baseline of Chefer et al. 2021",
    promises=("nonnegative",),
)
def partial_lrp(
    capture: Capture,
    *,
    rules: str = "orig",
    gradient: bool = False,
    signed: bool = False,
    reduce: str = "row",
) -> Tensor:
    """Relevance of the deciding token's attention to each token, (batch, tokens).

    `gradient` multiplies it by the attention's gradient, an ablation of the authors'.
    """
    choose("rules", rules, ("ours", "orig"))
    last = capture.relevances(rules, first=-1, gradient=gradient)[-1]
    (relevance,) = last.read("relevance")
    if gradient:
        relevance = relevance * last.read("gradient")[0]
    relevance = (relevance if signed else relevance.clamp(min=0)).mean(1)
    return capture.read_out(capture.rows(reduce).to(relevance.dtype) @ relevance, reduce)
