"""LRP from the output down to tokens, patches and pixels (baseline of CVPR 2021)."""

from __future__ import annotations

from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.methods.method import choose, method
from whyformer.rules.stabilise import wide


@method(
    "full_lrp",
    title="LRP all the way down to tokens, patches and pixels",
    paper="Binder et al. 2016; baseline of Chefer et al. 2021",
)
def full_lrp(capture: Capture, *, rules: str = "orig") -> Tensor:
    """Relevance of each token's state, signed, (batch, tokens).

    For images, `streams["image"].pixels` has it per pixel, by the z^B rule.
    """
    choose("rules", rules, ("ours", "orig"))
    image = capture.prepared.grid is not None
    capture.relevances(rules, gradient=False, reach="pixels" if image else "states")
    assert capture.state_relevance is not None
    return wide(capture.state_relevance).sum(-1)
