"""Transformer Attribution: relevance x gradient of the attention maps (CVPR 2021, eqs. 11-13)."""

from __future__ import annotations

from torch import Tensor

from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.methods.attention.gradient_kinds import relevances_with_gradient
from whyformer.methods.attention.mixing import has_cross_attention, mixings
from whyformer.methods.attention.relevancy import roll_out_with_last_cross
from whyformer.methods.attention.walk import read_maps, walk_stacks, weigh_rounding
from whyformer.methods.method import check_choice, method


@method(
    "transformer_attribution",
    title="LRP relevance x gradient of the attention maps, rolled out",
    paper="Chefer et al., CVPR 2021, eqs. 11-13",
    needs=("attention", "gradient", "relevance"),
    signed=False,
    rules="relevance",
    keeps=("maps", "relevance"),
)
def transformer_attribution(
    run: Run,
    *,
    start_layer: int = 0,
    normalize: bool = False,
    rules: str = "ours",
    gradient: str = "plain",
    signed: bool = False,
    reduce: str = "row",
) -> MethodResult:
    """Relevance of every token to the deciding token, specific to the target.

    Rolled out within a stream. From another stream it takes the last cross-attention layer.
    gradient="balanced" takes the gradient in the balanced pass of `libragrad`, at the cost of
    a second forward and backward pass. `signed` keeps the negative part that the paper clamps.
    """
    check_choice("rules", rules, ("ours", "orig"))
    seen = relevances_with_gradient(run, rules, gradient, first=start_layer)

    def mix(gradient: Tensor, relevance: Tensor) -> Tensor:
        product = gradient * relevance
        # Clamped before averaging, as eq. 12 does: averaging first lets heads cancel.
        return (product if signed else product.clamp_(min=0)).mean(1)

    found = mixings(seen.layers, ("gradient", "relevance"), mix)
    if not has_cross_attention(found):
        result = walk_stacks(seen, found, reduce, normalize=normalize)
    else:
        result = read_maps(seen, roll_out_with_last_cross(seen, found, normalize), reduce)
    return weigh_rounding(seen, result)
