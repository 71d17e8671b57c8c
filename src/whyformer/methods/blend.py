"""Blend of layer-averaged AttnLRP relevance and generic attention relevance, from one pass.

Relevance by the rules of Achtibat et al. (ICML 2024), averaged over block inputs as in FullGrad+
(Mehri et al., CVPR 2025); the walk of Chefer et al. (ICCV 2021, eqs. 5-11) with the gradient of
the same pass.
"""

from __future__ import annotations

from torch import Tensor

from whyformer.engine.passes.balanced import Balanced, balanced, lower_blocks
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.engine.rules.rule_sets import attn_lrp_rules
from whyformer.engine.run import Run
from whyformer.engine.segments import Segment
from whyformer.errors import UnsuitableMethodError
from whyformer.methods.attention.generic import generic_relevance
from whyformer.methods.method import check_share, method


@method(
    "blend",
    title="Layer-averaged AttnLRP relevance, its positive part shared with the GAE walk",
    paper="Achtibat et al. 2024, Mehri et al. 2025 and Chefer et al., ICCV 2021 combined",
    needs=("attention", "gradient"),
    signed=True,
    sums="conservation",
    rules="detach",
    keeps=("nodes",),
)
def blend(run: Run, *, share: float = 0.5, average: float | None = None) -> MethodResult:
    """Relevance that adds up, with the sinks, to the explained value.

    Relevance is averaged over the inputs of the lowest blocks: a share `average` of them, by
    default all for images and half for everything else. Of the positive relevance of each stream,
    `share` is spread over its tokens in proportion to generic attention relevance. Sums and
    negative relevance stay.
    """
    check_share("share", share)
    if average is not None:
        check_share("average", average)
    seen, notes = _read(run)
    segments = seen.layout.segments

    shares = {
        stack: _default_average(segments.get(stack, ())) if average is None else average
        for stack in seen.blocks
    }
    found = seen.average(
        {stack: lower_blocks(seen.block_counts[stack], shares[stack]) for stack in shares}
    )
    mixed_in = _walk(seen) if seen.layers else {}
    scores = {
        stack: _spread(relevance, mixed_in.get(stack), segments.get(stack, ()), share)
        for stack, relevance in found.scores.items()
    }
    return MethodResult(
        seen.forward,
        scores,
        sinks=found.sinks,
        leaks=found.leaks,
        layers=seen.every,
        deciding=seen.deciding,
        nodes=seen.nodes,
        notes=notes,
        reasons=seen.reasons,
    )


def _read(run: Run) -> tuple[Balanced, tuple[str, ...]]:
    """The pass; without attention maps, and a note that says so, if none can be chained."""
    rules = attn_lrp_rules()
    try:
        return balanced(run, rules=rules), ()
    except UnsuitableMethodError as error:
        if error.unavailable not in ("maps", "attention"):
            raise
        reason = f"blend without its attention walk, relevance alone: {error.message}"
        return balanced(run, maps=False, rules=rules), (reason,)


def _default_average(segments: tuple[Segment, ...]) -> float:
    """The share of blocks that is averaged: all for patches of images, else the lower half."""
    return 1.0 if segments and all(one.grid is not None for one in segments) else 0.5


def _walk(seen: Balanced) -> dict[str, Tensor]:
    """What the walk mixed in of each token, without the deciding token's start at itself."""
    return {
        stack: scores - seen.deciding[stack] if stack in seen.deciding else scores
        for stack, scores in generic_relevance(seen).scores.items()
    }


def _spread(
    relevance: Tensor, walked: Tensor | None, segments: tuple[Segment, ...], share: float
) -> Tensor:
    """Relevance with a share of each stream's positive part spread as `walked`, (batch, tokens)."""
    if walked is None:
        return relevance
    spread = relevance.clone()
    for segment in segments:
        own = relevance[:, segment.columns]
        positive = own.clamp(min=0)
        weights = walked[:, segment.columns].clamp(min=0) * segment.mask
        total = weights.sum(1, keepdim=True)
        moved = positive.sum(1, keepdim=True) * ratio(weights, total)
        # A stream that the walk does not reach keeps its relevance.
        spread[:, segment.columns] = own + share * (moved - positive) * (total > 0)
    return spread
