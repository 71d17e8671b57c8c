"""AttnLRP: softmax by its Taylor rule, products shared uniformly (Achtibat et al., ICML 2024)."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.detach.tables import conservative
from whyformer.methods.method import method


@method(
    "attn_lrp",
    title="LRP with a Taylor rule for softmax and uniform sharing in products",
    paper="Achtibat et al., ICML 2024",
    promises=("conservation",),
)
def attn_lrp(capture: Capture, *, at: str = "states") -> Scores:
    """Relevance through queries and keys too, signed.

    What the softmax's first-order expansion leaves over is the sink "softmax".
    """
    table = conservative(
        attention="uniform", norm="detach", activation="identity", product="uniform"
    )
    return capture.gradients(table, at=at, conserve=True, needs="attention").relevance()
