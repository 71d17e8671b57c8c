"""LRP (LN): gradient x input with the norms' deviations detached (Ali et al. 2022, eqs. 10-12)."""

from __future__ import annotations

from whyformer.engine.passes.gradients import gradients
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.run import Run
from whyformer.methods.method import method


@method(
    "lrp_ln",
    title="Gradient x input with detached LayerNorm deviations",
    paper="Ali et al., ICML 2022, eqs. 10-12",
    needs=("gradient",),
    signed=True,
    rules="detach",
)
def lrp_ln(run: Run, *, detach_mean: bool = False, at: str = "states") -> MethodResult:
    """Relevance under the layer-norm rule alone."""
    return gradients(run, detach_table(norm="detach", detach_mean=detach_mean), at=at).result()
