"""Transformer Attribution: relevance x gradient of the attention maps (CVPR 2021, eqs. 11-13)."""

from __future__ import annotations

from torch import Tensor

from whyformer.engine.capture import Capture, Scores
from whyformer.methods.attention.mixing import meet, mixings, walk
from whyformer.methods.attention.relevancy import with_last_cross
from whyformer.methods.method import choose, method


@method(
    "transformer_attribution",
    title="LRP relevance x gradient of the attention maps, rolled out",
    paper="Chefer et al., CVPR 2021, eqs. 11-13",
    promises=("nonnegative",),
)
def transformer_attribution(
    capture: Capture,
    *,
    start_layer: int = 0,
    normalize: bool = False,
    rules: str = "ours",
    signed: bool = False,
    reduce: str = "row",
) -> Scores:
    """Relevance of every token to the deciding token, class-specific.

    Rolled out within a stream; of another one, what the last layer that asks it finds there.
    `signed` keeps what the paper clamps away.
    """
    choose("rules", rules, ("ours", "orig"))
    layers = capture.relevances(rules, first=start_layer)

    def mix(gradient: Tensor, relevance: Tensor) -> Tensor:
        wanted = gradient * relevance
        # Clamped before averaging, as eq. 12 does: averaging first lets heads cancel.
        return (wanted if signed else wanted.clamp_(min=0)).mean(1)

    found = mixings(layers, ("gradient", "relevance"), mix)
    if not meet(found):
        return walk(capture, found, reduce, normalize=normalize)
    return capture.read_maps(with_last_cross(capture, found, normalize), reduce)
