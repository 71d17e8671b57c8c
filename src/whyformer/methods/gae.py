"""Generic attention relevance within and between streams (Chefer et al., ICCV 2021, eqs. 5-11)."""

from __future__ import annotations

from whyformer.engine.passes.attentions import Attentions
from whyformer.engine.passes.relevances import Relevances
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.methods.attention.generic import generic_mixing, generic_relevance
from whyformer.methods.attention.gradient_kinds import (
    attentions_with_gradient,
    relevances_with_gradient,
)
from whyformer.methods.attention.walk import weigh_rounding
from whyformer.methods.method import method


@method(
    "gae",
    title="Attention x its gradient, propagated from layer to layer and between streams",
    paper="Chefer et al., ICCV 2021, eqs. 5-11",
    needs=("attention", "gradient"),
    signed=False,
    keeps=("maps", "relevance"),
)
def gae(
    run: Run,
    *,
    start_layer: int = 0,
    normalize: bool | None = None,
    gradient: str = "plain",
    use_lrp: bool = False,
    self_in_rule_10: bool = True,
    aggregate: bool = True,
    reduce: str = "row",
) -> MethodResult:
    """Relevance of every token to the deciding token.

    The deciding token starts by explaining only itself. Each layer adds what its heads mixed in,
    weighted by the gradient of the target. Between streams, `normalize` is eqs. 8-9 and on by
    default; within one stream it makes rows sum to 1 and is off. gradient="balanced" takes the
    gradient in the balanced pass of `libragrad`. `use_lrp` takes the relevance of the attention in
    place of the attention. The other two switches are the authors' ablations.
    """
    seen: Attentions
    if use_lrp:
        seen = relevances_with_gradient(run, "ours", gradient, first=start_layer)
    else:
        seen = attentions_with_gradient(run, gradient, first=start_layer, mix=generic_mixing)
    result = generic_relevance(
        seen,
        of="relevance" if use_lrp else "attention",
        normalize=normalize,
        self_in_rule_10=self_in_rule_10,
        aggregate=aggregate,
        reduce=reduce,
    )
    return weigh_rounding(seen, result) if isinstance(seen, Relevances) else result
