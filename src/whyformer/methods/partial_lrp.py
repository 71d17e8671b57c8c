"""Partial LRP: the relevance of the last attention map (Voita et al. 2019; CVPR 2021)."""

from __future__ import annotations

from torch import Tensor

from whyformer.engine.capture import Capture, Scores
from whyformer.methods.attention.mixing import mixings
from whyformer.methods.attention.relevancy import read_last
from whyformer.methods.method import choose, method


@method(
    "partial_lrp",
    title="LRP relevance of the last layer's attention map",
    paper="Voita et al. 2019; baseline of Chefer et al. 2021",
)
def partial_lrp(
    capture: Capture,
    *,
    rules: str | None = None,
    gradient: bool = False,
    signed: bool | None = None,
    reduce: str = "row",
) -> Scores:
    """Relevance of the deciding token's attention to each token.

    By default as the authors' tables have it: within one stream the "orig" rules and clamped,
    between streams the "ours" rules and signed. `gradient` multiplies it by the attention's
    gradient, an ablation of theirs.
    """
    several = bool(capture.prepared.others) or capture.stacks.only is None
    default = "ours" if several else "orig"
    chosen = choose("rules", default if rules is None else rules, ("ours", "orig"))
    signed = several if signed is None else signed
    layers = capture.relevances(chosen, first=-1, gradient=gradient, by_pair=True)

    def mix(relevance: Tensor, slope: Tensor | None = None) -> Tensor:
        relevance = relevance if slope is None else relevance * slope
        return (relevance if signed else relevance.clamp(min=0)).mean(1)

    parts = ("relevance", "gradient") if gradient else ("relevance",)
    return read_last(capture, mixings(layers, parts, mix), reduce)
