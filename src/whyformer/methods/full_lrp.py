"""LRP from the output down to tokens, patches and pixels (baseline of CVPR 2021)."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.methods.method import choose, method


@method(
    "full_lrp",
    title="LRP all the way down to tokens, patches and pixels",
    paper="Binder et al. 2016; baseline of Chefer et al. 2021",
)
def full_lrp(capture: Capture, *, rules: str = "orig") -> Scores:
    """Relevance of each token's state, signed.

    For images alone, `streams["image"].pixels` has it per pixel, by the z^B rule.
    """
    choose("rules", rules, ("ours", "orig"))
    patches = capture.prepared.grid is not None and capture.prepared.image is not None
    one = not capture.prepared.others and capture.stacks.only is not None
    capture.relevances(rules, gradient=False, reach="pixels" if patches and one else "states")
    return {name: wide(found).sum(-1) for name, found in capture.state_relevance.items()}
