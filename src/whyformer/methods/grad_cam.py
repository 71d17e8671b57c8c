"""Grad-CAM on the last attention map (Selvaraju et al. 2017, as Chefer et al. 2021 adapt it)."""

from __future__ import annotations

from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.methods.method import choose, method


@method(
    "grad_cam",
    title="Last attention map, heads weighted by their mean gradient",
    paper="Selvaraju et al. 2017; baseline of Chefer et al. 2021",
    promises=("nonnegative",),
)
def grad_cam(capture: Capture, *, weights: str | None = None, reduce: str = "row") -> Tensor:
    """Heads of the last layer that the target wanted, at the deciding token, (batch, tokens).

    A head weighs its mean gradient over the deciding token's row ("row", the default for images)
    or over the whole map ("map", the default for text), as the authors' two codes have it.
    """
    default = "row" if capture.prepared.grid is not None else "map"
    over = choose("weights", weights or default, ("row", "map"))
    layers = capture.attentions(gradient=True, first=-1)
    attention, gradient = layers[-1].read("attention", "gradient")
    real = capture.mask.to(gradient.dtype)
    asking = capture.deciding if over == "row" else real
    assert asking is not None
    answering = real.clone()
    if over == "row":
        answering[:, : capture.prefix] = 0  # the patches' gradients only
    pairs = asking.to(gradient.dtype).unsqueeze(2) * answering.unsqueeze(1)
    pairs = pairs / pairs.sum(dim=(1, 2), keepdim=True)
    head_weight = (gradient * pairs.unsqueeze(1)).sum(dim=(2, 3), keepdim=True)
    cam = (attention * head_weight).mean(1).clamp(min=0)
    return capture.read_out(capture.rows(reduce).to(cam.dtype) @ cam, reduce)
