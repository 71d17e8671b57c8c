"""The attention map of one layer, heads averaged (A-Last)."""

from __future__ import annotations

from whyformer.engine.passes.attentions import attentions
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.methods.attention.mixing import head_mean, mixings
from whyformer.methods.attention.relevancy import read_layer
from whyformer.methods.method import method


@method(
    "raw_attention",
    title="Attention of the last layer, averaged over heads (A-Last)",
    paper="baseline of all three papers",
    needs=("attention",),
    signed=False,
    keeps=("maps",),
)
def raw_attention(run: Run, *, layer: int = -1, reduce: str = "row") -> MethodResult:
    """Attention of the deciding token to each token; `layer` counts per pair of streams."""
    seen = attentions(run)
    pairs = [(each.asking, each.answering) for each in seen.layers]
    most = max(map(pairs.count, pairs))
    if not -most <= layer < most:
        raise OptionError(
            f"layer={layer}, but the model has {most} attention layers",
            argument="layer",
            remedy=f"Pass a number from {-most} to {most - 1}",
        )
    return read_layer(seen, mixings(seen.layers, ("attention",), head_mean), reduce, layer)
