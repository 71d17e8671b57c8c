"""The attention map of one layer, heads averaged (A-Last)."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.errors import OptionError
from whyformer.methods.attention.mixing import averaged, mixings
from whyformer.methods.attention.relevancy import read_last
from whyformer.methods.method import method


@method(
    "raw_attention",
    title="Attention of the last layer, averaged over heads (A-Last)",
    paper="baseline of all three papers",
    promises=("nonnegative",),
)
def raw_attention(capture: Capture, *, layer: int = -1, reduce: str = "row") -> Scores:
    """How much the deciding token looks at each token; `layer` counts each pair of streams' own."""
    layers = capture.attentions()
    pairs = [(each.asking, each.answering) for each in layers]
    most = max(map(pairs.count, pairs))
    if not -most <= layer < most:
        raise OptionError(f"layer={layer}, but the model has {most} attention layers")
    return read_last(capture, mixings(layers, ("attention",), averaged), reduce, layer)
