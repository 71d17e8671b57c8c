"""LRP (AH+LN): attention weights and norm deviations detached (Ali et al. 2022, eqs. 9-12)."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.detach.tables import conservative
from whyformer.methods.method import choose, method

_PRODUCT = {"gradient": "gradient", "identity": "gate"}


@method(
    "lrp_ah_ln",
    title="Gradient x input with detached attention weights and LayerNorm deviations",
    paper="Ali et al., ICML 2022, eqs. 9-12",
    promises=("conservation",),
)
def lrp_ah_ln(
    capture: Capture,
    *,
    activations: str = "gradient",
    detach_mean: bool = False,
    at: str = "states",
) -> Scores:
    """Relevance that adds up, with the sinks, to the explained value, signed.

    By default exactly the paper's two detaches: smooth activations then still lose or gain a
    little. `activations="identity"` passes relevance through them unchanged, and through a gated
    product to the factor that is not the gate, and conserves exactly.
    """
    choose("activations", activations, tuple(_PRODUCT))
    table = conservative(
        attention="detach",
        norm="detach",
        activation=activations,
        product=_PRODUCT[activations],
        detach_mean=detach_mean,
    )
    return capture.gradients(table, at=at, conserve=True, needs="attention").relevance()
