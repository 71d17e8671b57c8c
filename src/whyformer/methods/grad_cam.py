"""Grad-CAM on the last attention map (Selvaraju et al. 2017, as Chefer et al. 2021 adapt it)."""

from __future__ import annotations

from torch import Tensor

from whyformer.attribution import Layer
from whyformer.capture.capture import Capture, Scores
from whyformer.methods.method import choose, method
from whyformer.methods.mixing import Mixing
from whyformer.methods.relevancy import last_maps


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
        Mixing(
            layer.asking,
            layer.answering,
            _cam(capture, layer, weights or _default(capture, layer)),
        )
        for layer in capture.attentions(gradient=True, first=-1, by_pair=True)
    ]
    return capture.read_maps(last_maps(capture, found), reduce)


def _default(capture: Capture, layer: Layer) -> str:
    segments = capture.segments.get(layer.asking, ())
    image = layer.asking == layer.answering and len(segments) == 1 and segments[0].grid is not None
    return "row" if image else "map"


def _cam(capture: Capture, layer: Layer, over: str) -> Tensor:
    """The map with its heads weighted, (batch, query, key)."""
    attention, gradient = layer.read("attention", "gradient")
    asking = capture.masks[layer.asking]
    answering = capture.masks[layer.answering].to(gradient.dtype)
    if over == "row":
        asking = capture.deciding.get(layer.asking, asking)
        answering = answering.clone()
        answering[:, : capture.segments[layer.answering][0].start] = 0  # the patches' only
    pairs = asking.to(gradient.dtype).unsqueeze(2) * answering.unsqueeze(1)
    pairs = pairs / pairs.sum(dim=(1, 2), keepdim=True)
    head_weight = (gradient * pairs.unsqueeze(1)).sum(dim=(2, 3), keepdim=True)
    return (attention * head_weight).mean(1).clamp(min=0)
