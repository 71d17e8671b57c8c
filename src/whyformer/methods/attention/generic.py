"""Generic attention relevance from layers that were read (Chefer et al., ICCV 2021, eqs. 5-11)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from whyformer.engine.passes.attentions import Attentions
from whyformer.engine.result import MethodResult
from whyformer.engine.streamed_layers import AnyLayer
from whyformer.methods.attention.mixing import (
    Mixing,
    has_cross_attention,
    mixings,
    positive_gradient_mean,
)
from whyformer.methods.attention.relevancy import propagate_relevancy
from whyformer.methods.attention.walk import read_maps, walk_stacks


def generic_mixing(layer: AnyLayer) -> Tensor:
    """Return the mixing that `generic_relevance` reads of a layer, (batch, query, key)."""
    return _generic_mixings([layer], "attention")[0].matrix


def _generic_mixings(layers: Sequence[AnyLayer], of: str) -> list[Mixing]:
    return mixings(layers, (of, "gradient"), positive_gradient_mean)


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
    found = _generic_mixings(seen.layers, of)
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
