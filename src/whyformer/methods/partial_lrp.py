"""Partial LRP: the relevance of the last attention map (Voita et al. 2019; CVPR 2021)."""

from __future__ import annotations

from torch import Tensor

from whyformer.engine.passes.relevances import relevances
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.methods.attention.mixing import mixings
from whyformer.methods.attention.relevancy import read_layer
from whyformer.methods.method import check_choice, method


@method(
    "partial_lrp",
    title="LRP relevance of the last layer's attention map",
    paper="Voita et al. 2019; baseline of Chefer et al. 2021",
    needs=("attention", "relevance"),
    signed=True,
    rules="relevance",
    keeps=("maps", "relevance"),
)
def partial_lrp(
    run: Run,
    *,
    rules: str | None = None,
    gradient: bool = False,
    signed: bool | None = None,
    reduce: str = "row",
) -> MethodResult:
    """Relevance of the deciding token's attention to each token.

    The defaults follow the authors' tables: within one stream the "orig" rules and clamped,
    between streams the "ours" rules and signed. `gradient` multiplies by the attention's gradient,
    an ablation of theirs.
    """
    several = bool(run.batch.others) or run.stacks.only is None
    default = "ours" if several else "orig"
    rules = check_choice("rules", default if rules is None else rules, ("ours", "orig"))
    keep_sign = several if signed is None else signed
    seen = relevances(run, rules, first=-1, gradient=gradient, by_pair=True)

    def mix(relevance: Tensor, slope: Tensor | None = None) -> Tensor:
        relevance = relevance if slope is None else relevance * slope
        return (relevance if keep_sign else relevance.clamp(min=0)).mean(1)

    parts = ("relevance", "gradient") if gradient else ("relevance",)
    return read_layer(seen, mixings(seen.layers, parts, mix), reduce)
