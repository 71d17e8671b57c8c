"""Integrated gradients from an input that says nothing (Sundararajan et al., ICML 2017)."""

from __future__ import annotations

import numpy as np
import torch

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.errors import OptionError
from whyformer.methods.method import method


@method(
    "integrated_gradients",
    title="Gradient averaged over a straight line from an input that says nothing",
    paper="Sundararajan et al., ICML 2017",
    promises=("completeness",),
)
def integrated_gradients(capture: Capture, *, steps: int = 32, at: str = "states") -> Scores:
    """(x - baseline) * mean gradient on the way, signed.

    The baseline is the same sentence in mask tokens, or a blank image, read at the same place.
    The line is sampled at Gauss-Legendre points. What its value already was at the baseline is
    the sink "baseline"; scores + sink = explained value up to the error of the sum.
    """
    if steps < 1:
        raise OptionError(f"steps={steps}: at least one step is needed")
    points, weights = np.polynomial.legendre.leggauss(steps)
    given = capture.states_at(at)
    baseline = capture.baseline_states(at)
    way = {name: states - baseline[name] for name, states in given.items()}
    total = {name: torch.zeros_like(wide(there)) for name, there in way.items()}
    marks = list(zip((points + 1) / 2, weights / 2, strict=True))
    while marks:
        several, count = capture.repeated(len(marks))
        some, marks = marks[:count], marks[count:]
        states = {
            name: torch.cat([baseline[name] + float(point) * there for point, _ in some])
            for name, there in way.items()
        }
        here = several.gradients({}, at=at, states=states)
        for name, gradient in here.gradient.items():
            for (_, weight), one in zip(some, wide(gradient).chunk(count), strict=True):
                total[name] += one * float(weight)
    assert capture.ledger is not None
    capture.ledger.sinks["baseline"] = capture.value_at(baseline, at)
    return {name: (wide(there) * total[name]).sum(-1) for name, there in way.items()}
