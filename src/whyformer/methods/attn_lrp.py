"""AttnLRP: softmax by its Taylor rule, products shared uniformly (Achtibat et al., ICML 2024)."""

from __future__ import annotations

from whyformer.engine.passes.gradients import gradients
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.run import Run
from whyformer.methods.method import method


@method(
    "attn_lrp",
    title="LRP with a Taylor rule for softmax and uniform sharing in products",
    paper="Achtibat et al., ICML 2024",
    needs=("gradient",),
    signed=True,
    sums="conservation",
    rules="detach",
)
def attn_lrp(run: Run, *, at: str = "states") -> MethodResult:
    """Relevance that also passes through queries and keys.

    The remainder of the softmax's first-order expansion is the sink "softmax".
    """
    table = detach_table(
        attention="uniform", norm="detach", activation="identity", product="uniform"
    )
    return gradients(run, table, at=at, conserve=True, needs="attention").result()
