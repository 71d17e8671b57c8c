"""LRP (LN): gradient x input with the norms' deviations detached (Ali et al. 2022, eqs. 10-12)."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.detach.tables import conservative
from whyformer.methods.method import method


@method(
    "lrp_ln",
    title="Gradient x input with detached LayerNorm deviations",
    paper="Ali et al., ICML 2022, eqs. 10-12",
)
def lrp_ln(capture: Capture, *, detach_mean: bool = False, at: str = "states") -> Scores:
    """Relevance under the layer-norm rule alone, signed."""
    table = conservative(norm="detach", detach_mean=detach_mean)
    return capture.gradients(table, at=at).relevance()
