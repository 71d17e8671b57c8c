"""Attention rollout (Abnar and Zuidema 2020), as the three papers use it for comparison."""

from __future__ import annotations

from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.methods.method import method
from whyformer.methods.mixing import walk_down


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
) -> Tensor:
    """How much of each token has been mixed into the deciding token, (batch, tokens)."""
    layers = capture.attentions(first=start_layer, end=end_layer)
    mixings = (layer.read("attention")[0].mean(1) for layer in reversed(layers))
    rows = walk_down(capture.rows(reduce), mixings, residual=residual, normalize=normalize)
    return capture.read_out(rows, reduce)
