"""Gradient x input (GI), the baseline of Ali et al. 2022."""

from __future__ import annotations

from whyformer.engine.passes.gradients import gradients
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.run import Run
from whyformer.methods.method import method


@method(
    "gradient_x_input",
    title="Gradient x input at the token states (GI)",
    paper="Shrikumar et al. 2016; baseline of Ali et al. 2022",
    needs=("gradient",),
    signed=True,
    keeps=("nodes",),
)
def gradient_x_input(run: Run, *, at: str = "states") -> MethodResult:
    """x * df/dx, summed over the hidden axis."""
    return gradients(run, detach_table(), at=at).result()
