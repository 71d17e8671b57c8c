"""Gradient x input (GI), the baseline of Ali et al. 2022."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.detach.tables import conservative
from whyformer.methods.method import method


@method(
    "gradient_x_input",
    title="Gradient x input at the token states (GI)",
    paper="Shrikumar et al. 2016; baseline of Ali et al. 2022",
)
def gradient_x_input(capture: Capture, *, at: str = "states") -> Scores:
    """x * df/dx summed over the hidden axis, signed."""
    return capture.gradients(conservative(), at=at).relevance()
