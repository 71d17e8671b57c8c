"""AttnLRP: softmax by its Taylor rule, products shared uniformly (Achtibat et al., ICML 2024)."""

from __future__ import annotations

import math

from whyformer.engine.passes.gradients import gradients
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.methods.method import method


@method(
    "attn_lrp",
    title="LRP with a Taylor rule for softmax and uniform sharing in products",
    paper="Achtibat et al., ICML 2024",
    needs=("gradient",),
    signed=True,
    sums="conservation",
    rules="detach",
    keeps=("nodes",),
)
def attn_lrp(run: Run, *, at: str = "states", gamma: float = 0.0) -> MethodResult:
    """Relevance that also passes through queries and keys.

    The remainder of the softmax's first-order expansion is the sink "softmax". With `gamma` above
    0, contributions with the sign of a linear layer's output count (1 + gamma) times: less noise
    in maps of images.
    """
    if not 0 <= gamma < math.inf:
        raise OptionError(
            f"gamma={gamma} is not a finite number of at least 0",
            argument="gamma",
            remedy="Pass for example gamma=0.05",
        )
    table = detach_table(
        attention="uniform",
        norm="detach",
        activation="identity",
        product="uniform",
        linear="gamma" if gamma else "gradient",
        gamma=gamma,
    )
    return gradients(run, table, at=at, conserve=True, needs="attention").result()
