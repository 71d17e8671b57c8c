"""Generic attention relevance from layers that were read (Chefer et al., ICCV 2021, eqs. 5-11)."""

from __future__ import annotations

from whyformer.engine.passes.attentions import Attentions
from whyformer.engine.result import MethodResult
from whyformer.methods.attention.mixing import (
    has_cross_attention,
    mixings,
    positive_gradient_mean,
)
from whyformer.methods.attention.relevancy import propagate_relevancy
from whyformer.methods.attention.walk import read_maps, walk_stacks


def generic_relevance(
    seen: Attentions,
    *,
    of: str = "attention",
    normalize: bool | None = None,
    self_in_rule_10: bool = True,
    aggregate: bool = True,
    reduce: str = "row",
) -> MethodResult:
    """Return the relevance of every token to the deciding token.

    `of` is the map that the gradient weighs, "attention" or "relevance". The other arguments are
    options of `gae`.
    """
    found = mixings(seen.layers, (of, "gradient"), positive_gradient_mean)
    if not has_cross_attention(found):
        return walk_stacks(seen, found, reduce, normalize=bool(normalize))
    maps = propagate_relevancy(
        seen,
        found,
        normalize=normalize is not False,
        self_in_rule_10=self_in_rule_10,
        aggregate=aggregate,
    )
    return read_maps(seen, maps, reduce)
