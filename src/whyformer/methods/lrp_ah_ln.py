"""LRP (AH+LN): attention weights and norm deviations detached (Ali et al. 2022, eqs. 9-12)."""

from __future__ import annotations

from whyformer.engine.passes.gradients import MIXING, gradients
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.run import Run
from whyformer.methods.method import check_choice, method

_PRODUCT = {"gradient": "gradient", "identity": "gate"}


@method(
    "lrp_ah_ln",
    title="Gradient x input with detached attention weights and LayerNorm deviations",
    paper="Ali et al., ICML 2022, eqs. 9-12",
    needs=("gradient",),
    signed=True,
    sums="conservation",
    rules="detach",
    keeps=("nodes",),
)
def lrp_ah_ln(
    run: Run,
    *,
    activations: str = "gradient",
    detach_mean: bool = False,
    at: str = "states",
) -> MethodResult:
    """Relevance that adds up, with the sinks, to the explained value.

    The default is exactly the paper's two detaches; smooth activations then still lose or gain
    some relevance. `activations="identity"` passes relevance through them unchanged, and through
    a gated product to the factor that is not the gate, and conserves exactly.
    """
    check_choice("activations", activations, tuple(_PRODUCT))
    table = detach_table(
        attention="detach",
        norm="detach",
        activation=activations,
        product=_PRODUCT[activations],
        detach_mean=detach_mean,
    )
    return gradients(run, table, at=at, conserve=True, needs=MIXING).result()
