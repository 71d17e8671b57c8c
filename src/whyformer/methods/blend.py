"""Blend of layer-averaged relevance and generic attention relevance, from one balanced pass.

Relevance as in LibraGrad with FullGrad+ (Mehri et al., CVPR 2025); the walk of Chefer et al. (ICCV
2021, eqs. 5-11) with the gradient of the same pass.
"""

from __future__ import annotations

from torch import Tensor

from whyformer.engine.passes.balanced import Balanced, balanced
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.engine.run import MAPS, Run
from whyformer.engine.segments import Segment
from whyformer.errors import UnsuitableMethodError
from whyformer.methods.attention.generic import generic_mixing, generic_relevance
from whyformer.methods.method import check_share, method

IMAGE_SHARE = 0.5
WALK_POWER = 0.75  # below 1, so that the walk's few highest tokens do not take everything


@method(
    "blend",
    title="Layer-averaged relevance; on images, half of its positive part follows the GAE walk",
    paper="Mehri et al., CVPR 2025 and Chefer et al., ICCV 2021 combined",
    needs=("attention", "gradient"),
    signed=True,
    sums="conservation",
    rules="detach",
    keeps=("nodes",),
)
def blend(run: Run, *, share: float | None = None, start_layer: int | None = None) -> MethodResult:
    """Relevance that adds up, with the mean of the sinks, to the explained value.

    Relevance is averaged over the inputs of the blocks from `start_layer` on: by default all blocks
    but the lowest third for images, and all for everything else, as in `libragrad`. Of the positive
    relevance of each stream, `share` is spread over its tokens in proportion to
    walk^0.75 x q^2 / (1 + q^2), where the walk is generic attention relevance and q is positive
    relevance over its mean of the tokens that have relevance: a token takes part if both find it
    relevant. Sums and negative relevance stay. By default images share half and other streams
    nothing.
    """
    if share is not None:
        check_share("share", share)
    seen, notes = _read(run, share)
    segments = seen.layout.segments
    found = seen.average(
        {
            stack: _averaged_blocks(seen, stack, segments.get(stack, ()), start_layer)
            for stack in seen.block_counts
        }
    )
    walked = _walk(seen) if seen.layers else {}
    scores = {
        stack: _spread(relevance, walked[stack], segments.get(stack, ()), share)
        if stack in walked
        else relevance
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


def _read(run: Run, share: float | None) -> tuple[Balanced, tuple[str, ...]]:
    """The pass; without attention maps if no stream needs them or, with a note, has them."""
    shares = [_share(one.stream, share) for one in run.batch]
    if not any(shares) and not run.keep & MAPS:
        return balanced(run, maps=False), ()
    try:
        return balanced(run, mix=generic_mixing), ()
    except UnsuitableMethodError as error:
        if error.unavailable not in ("maps", "attention"):
            raise
        reason = f"blend without its attention walk, relevance alone: {error.message}"
        return balanced(run, maps=False), (reason,)


def _share(stream: str, share: float | None) -> float:
    """The share of a stream's positive relevance that follows the walk."""
    if share is not None:
        return share
    return IMAGE_SHARE if stream == "image" else 0.0


def _averaged_blocks(
    seen: Balanced, stack: str, segments: tuple[Segment, ...], start_layer: int | None
) -> range:
    """The numbers of the blocks that are averaged."""
    every = range(seen.block_counts[stack])
    if start_layer is not None:
        return every[start_layer:]
    images = bool(segments) and all(one.stream == "image" for one in segments)
    upper = every[len(every) // 3 :] if images else every
    # Models that merge patches may have their first tokens in the lowest blocks only.
    return upper if set(upper) & set(seen.like_the_first(stack)) else every


def _walk(seen: Balanced) -> dict[str, Tensor]:
    """What the walk mixed in of each token, without the deciding token's start at itself."""
    return {
        stack: scores - seen.deciding[stack] if stack in seen.deciding else scores
        for stack, scores in generic_relevance(seen).scores.items()
    }


def _spread(
    relevance: Tensor, walked: Tensor, segments: tuple[Segment, ...], share: float | None
) -> Tensor:
    """Relevance with a share of each stream's positive part spread as `walked`, (batch, tokens)."""
    spread = relevance.clone()
    for segment in segments:
        own = relevance[:, segment.columns]
        positive = own.clamp(min=0) * segment.mask
        total = positive.sum(1, keepdim=True)
        # Later tokens of a written answer have no relevance, and would lower the mean.
        reached = (own != 0) & segment.mask
        size = ratio(positive, ratio(total, reached.sum(1, keepdim=True))).square()
        weights = walked[:, segment.columns].clamp(min=0).pow(WALK_POWER) * (size / (1 + size))
        sum_of_weights = weights.sum(1, keepdim=True)
        moved = total * ratio(weights, sum_of_weights)
        # A stream that the walk does not reach keeps its relevance.
        change = (moved - positive) * (sum_of_weights > 0)
        spread[:, segment.columns] = own + _share(segment.stream, share) * change
    return spread
