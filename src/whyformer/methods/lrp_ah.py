"""LRP (AH): gradient x input with the attention weights detached (Ali et al. 2022, eq. 9)."""

from __future__ import annotations

from whyformer.engine.passes.gradients import MIXING, gradients
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.run import Run
from whyformer.methods.method import method


@method(
    "lrp_ah",
    title="Gradient x input with detached attention weights",
    paper="Ali et al., ICML 2022, eq. 9",
    needs=("gradient",),
    signed=True,
    rules="detach",
)
def lrp_ah(run: Run, *, at: str = "states") -> MethodResult:
    """Relevance under the attention-head rule alone."""
    return gradients(run, detach_table(attention="detach"), at=at, needs=MIXING).result()
