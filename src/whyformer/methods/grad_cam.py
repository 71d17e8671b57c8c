"""Grad-CAM on the last attention map (Selvaraju et al. 2017, as Chefer et al. 2021 adapt it)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.streamed_layers import AnyLayer, dtype_of, pooled_gradient
from whyformer.methods.attention.mixing import Mixing
from whyformer.methods.attention.relevancy import read_last
from whyformer.methods.method import choose, method


@method(
    "grad_cam",
    title="Last attention map, heads weighted by their mean gradient",
    paper="Selvaraju et al. 2017; baseline of Chefer et al. 2021",
    promises=("nonnegative",),
)
def grad_cam(capture: Capture, *, weights: str | None = None, reduce: str = "row") -> Scores:
    """Heads of the last layer that the target wanted, at the deciding token.

    A head weighs its mean gradient over the deciding token's row ("row", the default for images)
    or over the whole map ("map", the default for everything else), as the authors' codes have it.
    """
    if weights is not None:
        choose("weights", weights, ("row", "map"))
    found = [
        Mixing(layer, ("attention",), _cam(capture, layer, weights or _default(capture, layer)))
        for layer in capture.attentions(gradient=True, first=-1, by_pair=True)
    ]
    return read_last(capture, found, reduce)


def _default(capture: Capture, layer: AnyLayer) -> str:
    segments = capture.segments.get(layer.asking, ())
    image = layer.asking == layer.answering and len(segments) == 1 and segments[0].grid is not None
    return "row" if image else "map"


def _cam(capture: Capture, layer: AnyLayer, over: str) -> Callable[[Tensor], Tensor]:
    """What makes rows of the map, its heads weighted, (batch, query, key)."""
    dtype = dtype_of(layer)
    asking = capture.masks[layer.asking]
    answering = capture.masks[layer.answering].to(dtype)
    if over == "row":
        asking = capture.deciding.get(layer.asking, asking)
        answering = answering.clone()
        answering[:, : capture.segments[layer.answering][0].start] = 0  # the patches' only
    asking = asking.to(dtype)
    pairs = asking.sum(1) * answering.sum(1)
    weight = pooled_gradient(layer, asking, answering) / pairs.unsqueeze(1)

    def cam(attention: Tensor) -> Tensor:
        return (attention * weight[..., None, None]).mean(1).clamp(min=0)

    return cam
