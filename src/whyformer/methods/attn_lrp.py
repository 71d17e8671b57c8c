"""AttnLRP: softmax by its Taylor rule, products shared uniformly (Achtibat et al., ICML 2024)."""

from __future__ import annotations

import math

from whyformer.engine.passes.balanced import balanced, lower_blocks
from whyformer.engine.passes.gradients import MIXING, gradients
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.rule_sets import attn_lrp_rules
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.methods.method import check_share, method


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
def attn_lrp(
    run: Run, *, at: str = "states", gamma: float = 0.0, average: float = 0.0
) -> MethodResult:
    """Relevance that also passes through queries and keys.

    The remainder of the softmax's first-order expansion is the sink "softmax". With `gamma` above
    0, contributions with the sign of a linear layer's output count (1 + gamma) times: less noise
    in maps of images. `average` is the share of the blocks, from the first one, over whose inputs
    relevance is averaged, as in `libragrad`; 0 reads it at the first block alone.
    """
    if not 0 <= gamma < math.inf:
        raise OptionError(
            f"gamma={gamma} is not a finite number of at least 0",
            argument="gamma",
            remedy="Pass for example gamma=0.05",
        )
    rules = attn_lrp_rules(gamma)
    if check_share("average", average) == 0:
        return gradients(run, rules.table, at=at, conserve=True, needs=MIXING).result()
    if at != "states":
        raise OptionError(
            f"average={average} averages over block inputs, and at={at!r} reads elsewhere",
            argument="average",
            remedy="Leave out at=",
        )
    seen = balanced(run, maps=False, rules=rules)
    return seen.average_result(
        {stack: lower_blocks(count, average) for stack, count in seen.block_counts.items()}
    )
