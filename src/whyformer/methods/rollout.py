"""Attention rollout (Abnar and Zuidema 2020), as the three papers use it for comparison."""

from __future__ import annotations

from whyformer.engine.passes.attentions import attentions
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.methods.attention.mixing import has_cross_attention, head_mean, mixings
from whyformer.methods.attention.relevancy import roll_out
from whyformer.methods.attention.walk import read_maps, walk_stacks
from whyformer.methods.method import method


@method(
    "rollout",
    title="Product of the attention maps of all layers, with skip connections",
    paper="Abnar and Zuidema 2020; baseline of all three papers",
    needs=("attention",),
    signed=False,
    keeps=("maps",),
)
def rollout(
    run: Run,
    *,
    start_layer: int = 0,
    end_layer: int | None = None,
    normalize: bool = True,
    residual: bool = True,
    reduce: str = "row",
) -> MethodResult:
    """How much of each token was mixed into the deciding token."""
    seen = attentions(run, first=start_layer, end=end_layer)
    found = mixings(seen.layers, ("attention",), head_mean)
    if not has_cross_attention(found):
        return walk_stacks(seen, found, reduce, residual=residual, normalize=normalize)
    return read_maps(seen, roll_out(seen, found, residual, normalize), reduce)
