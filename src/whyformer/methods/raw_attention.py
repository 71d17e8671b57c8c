"""The attention map of one layer, heads averaged (A-Last)."""

from __future__ import annotations

from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.errors import OptionError
from whyformer.methods.method import method


@method(
    "raw_attention",
    title="Attention of the last layer, averaged over heads (A-Last)",
    paper="baseline of all three papers",
    promises=("nonnegative",),
)
def raw_attention(capture: Capture, *, layer: int = -1, reduce: str = "row") -> Tensor:
    """How much the deciding token looks at each token, (batch, tokens)."""
    layers = capture.attentions()
    if not -len(layers) <= layer < len(layers):
        raise OptionError(f"layer={layer}, but the model has {len(layers)} attention layers")
    (attention,) = layers[layer].read("attention")
    return capture.read_out(capture.rows(reduce) @ attention.mean(1), reduce)
