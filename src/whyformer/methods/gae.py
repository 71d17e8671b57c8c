"""Generic attention relevance within one stream (Chefer et al., ICCV 2021, eqs. 5-6)."""

from __future__ import annotations

from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.methods.method import method
from whyformer.methods.mixing import walk_down


@method(
    "gae",
    title="Attention x its gradient, propagated from layer to layer",
    paper="Chefer et al., ICCV 2021, eqs. 5-6",
    promises=("nonnegative",),
)
def gae(
    capture: Capture, *, start_layer: int = 0, normalize: bool = False, reduce: str = "row"
) -> Tensor:
    """Relevance of every token to the deciding token, (batch, tokens).

    The deciding token starts by explaining only itself; walking down, each layer adds what its
    heads mixed in, weighted by how much the target wanted that mixing.
    """
    layers = capture.attentions(gradient=True, first=start_layer)

    def mixing(attention: Tensor, gradient: Tensor) -> Tensor:
        # Clamped before averaging, as eq. 5 does: averaging first lets heads cancel.
        return (attention * gradient).clamp_(min=0).mean(1)

    mixings = (mixing(*layer.read("attention", "gradient")) for layer in reversed(layers))
    rows = walk_down(capture.rows(reduce), mixings, normalize=normalize)
    return capture.read_out(rows, reduce)
