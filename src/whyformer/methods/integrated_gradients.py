"""Integrated gradients from a neutral input (Sundararajan et al., ICML 2017)."""

from __future__ import annotations

import numpy as np
import torch

from whyformer.batching.progress import report_step
from whyformer.engine.passes.forward_only import forward_only
from whyformer.engine.passes.gradients import gradients
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.methods.method import method


@method(
    "integrated_gradients",
    title="Gradient averaged along a straight line from a neutral input",
    paper="Sundararajan et al., ICML 2017",
    needs=("gradient",),
    signed=True,
    sums="completeness",
)
def integrated_gradients(run: Run, *, steps: int = 32, at: str = "states") -> MethodResult:
    """(x - baseline) * mean gradient along the line.

    The baseline is the same text with mask tokens, or a blank image.
    The line is sampled at Gauss-Legendre points. The value at the baseline is the sink
    "baseline": scores + sink = explained value, up to the integration error.
    """
    if steps < 1:
        raise OptionError(f"steps={steps} is too few", argument="steps", remedy="Pass at least 1")
    points, weights = np.polynomial.legendre.leggauss(steps)
    forward = forward_only(run, at=at)
    run = run.aim_at(forward.goal)
    baseline = forward_only(run, at=at, baseline=True).states
    line = {name: states - baseline[name] for name, states in forward.states.items()}
    total = {name: torch.zeros_like(wide(difference)) for name, difference in line.items()}
    tokens = sum(forward.layout.counts.values())
    remaining = list(zip((points + 1) / 2, weights / 2, strict=True))
    while remaining:
        repeated, count = run.repeat(len(remaining), tokens)
        some, remaining = remaining[:count], remaining[count:]
        report_step("integrating", steps - len(remaining) - len(some), steps)
        states = {
            name: torch.cat([baseline[name] + float(point) * difference for point, _ in some])
            for name, difference in line.items()
        }
        for name, gradient in gradients(repeated, {}, at=at, states=states).gradient.items():
            for (_, weight), one in zip(some, wide(gradient).chunk(count), strict=True):
                total[name] += one * float(weight)
    start = wide(forward_only(run, at=at, states=baseline).goal.value.detach())
    scores = {name: (wide(difference) * total[name]).sum(-1) for name, difference in line.items()}
    return MethodResult(forward, scores, sinks={"baseline": start})
