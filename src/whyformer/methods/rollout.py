"""Attention rollout (Abnar and Zuidema 2020), as the three papers use it for comparison."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.methods.attention.mixing import averaged, meet, mixings, walk
from whyformer.methods.attention.relevancy import rolled_out
from whyformer.methods.method import method


@method(
    "rollout",
    title="Product of the attention maps of all layers, with skip connections",
    paper="Abnar and Zuidema 2020; baseline of all three papers",
    promises=("nonnegative",),
)
def rollout(
    capture: Capture,
    *,
    start_layer: int = 0,
    end_layer: int | None = None,
    normalize: bool = True,
    residual: bool = True,
    reduce: str = "row",
) -> Scores:
    """How much of each token has been mixed into the deciding token."""
    layers = capture.attentions(first=start_layer, end=end_layer)
    found = mixings(layers, ("attention",), averaged)
    if not meet(found):
        return walk(capture, found, reduce, residual=residual, normalize=normalize)
    return capture.read_maps(rolled_out(capture, found, residual, normalize), reduce)
