"""Grad-CAM on the last attention map (Selvaraju et al. 2017, as Chefer et al. 2021 adapt it)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from whyformer.engine.passes.attentions import Attentions
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.rules.operations.stabilise import ratio
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

    def read(sizes: bool) -> MethodResult:
        found = [
            Mixing(
                layer,
                ("attention",),
                _weighted_heads(seen, layer, weights or _default(seen, layer), sizes),
            )
            for layer in seen.layers
        ]
        return read_layer(seen, found, reduce)

    result = read(sizes=False)
    return replace(result, rounding=_rounding(result.scores, read(sizes=True).scores))


def _rounding(scores: Scores, sizes: Scores) -> Tensor:
    """The share of the scores that one rounding step changes, (batch,): heads may cancel."""
    found = []
    for stack, size in sizes.items():
        cancelled = ratio(size.amax(1), scores[stack].amax(1))
        found.append(cancelled * torch.finfo(size.dtype).eps)
    return torch.stack([one.to(found[0]) for one in found]).amax(0)


def _default(seen: Attentions, layer: AnyLayer) -> str:
    segments = seen.layout.segments.get(layer.asking, ())
    image = layer.asking == layer.answering and len(segments) == 1 and segments[0].grid is not None
    return "row" if image else "map"


def _weighted_heads(
    seen: Attentions, layer: AnyLayer, over: str, sizes: bool
) -> Callable[[Tensor], Tensor]:
    """A function from attention rows to the weighted mean of heads, (batch, query, key).

    `sizes` gives that of their absolute values.
    """
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
    weight = weight.abs() if sizes else weight

    def cam(attention: Tensor) -> Tensor:
        return (attention * weight[..., None, None]).mean(1).clamp(min=0)

    return cam
