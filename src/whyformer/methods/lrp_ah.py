"""LRP (AH): gradient x input with the attention weights detached (Ali et al. 2022, eq. 9)."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.detach.tables import conservative
from whyformer.methods.method import method


@method(
    "lrp_ah",
    title="Gradient x input with detached attention weights",
    paper="Ali et al., ICML 2022, eq. 9",
)
def lrp_ah(capture: Capture, *, at: str = "states") -> Scores:
    """Relevance under the attention-head rule alone, signed."""
    table = conservative(attention="detach")
    return capture.gradients(table, at=at, needs="attention").relevance()
