"""Grad-CAM on the last attention map (Selvaraju et al. 2017, as Chefer et al. 2021 adapt it)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from whyformer.engine.passes.attentions import Attentions
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.engine.streamed_layers import AnyLayer, map_dtype, pooled_gradient
from whyformer.methods.attention.gradient_kinds import attentions_with_gradient
from whyformer.methods.attention.mixing import Mixing
from whyformer.methods.attention.relevancy import read_layer
from whyformer.methods.method import check_choice, method


@method(
    "grad_cam",
    title="Last attention map, heads weighted by their mean gradient",
    paper="Selvaraju et al. 2017; baseline of Chefer et al. 2021",
    needs=("attention", "gradient"),
    signed=False,
    keeps=("maps",),
)
def grad_cam(
    run: Run, *, weights: str | None = None, gradient: str = "plain", reduce: str = "row"
) -> MethodResult:
    """The last layer's heads, weighted by their gradient, at the deciding token.

    A head's weight is its mean gradient over the deciding token's row ("row", the default for
    images) or over the whole map ("map", the default for everything else), as in the authors' code.
    gradient="balanced" takes the gradient in the balanced pass of `libragrad`.
    """
    if weights is not None:
        check_choice("weights", weights, ("row", "map"))
    seen = attentions_with_gradient(run, gradient, first=-1, by_pair=True)
    found = [
        Mixing(
            layer, ("attention",), _weighted_heads(seen, layer, weights or _default(seen, layer))
        )
        for layer in seen.layers
    ]
    return read_layer(seen, found, reduce)


def _default(seen: Attentions, layer: AnyLayer) -> str:
    segments = seen.layout.segments.get(layer.asking, ())
    image = layer.asking == layer.answering and len(segments) == 1 and segments[0].grid is not None
    return "row" if image else "map"


def _weighted_heads(seen: Attentions, layer: AnyLayer, over: str) -> Callable[[Tensor], Tensor]:
    """A function from attention rows to the weighted mean of heads, (batch, query, key)."""
    dtype, masks = map_dtype(layer), seen.layout.masks
    queries = masks[layer.asking]
    keys = masks[layer.answering].to(dtype)
    if over == "row":
        queries = seen.deciding.get(layer.asking, queries)
        patches = seen.layout.segments[layer.answering][0].columns
        only = torch.zeros_like(keys)
        only[:, patches] = keys[:, patches]
        keys = only
    queries = queries.to(dtype)
    pairs = queries.sum(1) * keys.sum(1)
    weight = pooled_gradient(layer, queries, keys) / pairs.unsqueeze(1)

    def cam(attention: Tensor) -> Tensor:
        return (attention * weight[..., None, None]).mean(1).clamp(min=0)

    return cam
