"""Who gets how much of an output's relevance (Chefer et al., CVPR 2021, eqs. 2-10).

Pure formulas on plain tensors; `w` is (out, in) as in a linear layer. Every sum that normalises
is over one sample: the authors' code has batches of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whyformer.engine.rules import blocked_matmul
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.engine.rules.scratch import Room, fresh

EPSILON = 1e-9  # the authors'; ours keeps the denominator's sign


class Absolutes(NamedTuple):
    """What positive_linear wants to know of a layer, whatever its input."""

    weights: Tensor  # |w|
    less: Tensor | float  # the bias and what rounding adds to it, to be taken off the output


# known(w, bias) -> the layer's absolutes
Known = Callable[[Tensor, Tensor | None], Absolutes]


def absolutes(w: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Absolutes:
    """Those of a layer; |w| goes to `out` where it is given."""
    less: Tensor | float = -2 * EPSILON
    if bias is not None:
        less = torch.add(bias, bias.abs(), alpha=_noise(bias)).sub_(2 * EPSILON)
    return Absolutes(torch.abs(w, out=out), less)


def positive_linear(
    relevance: Tensor,
    x: Tensor,
    w: Tensor,
    output: Tensor,
    bias: Tensor | None = None,
    known: Known = absolutes,
    room: Room = fresh,
) -> Tensor:
    """Positive contributions only, over their joint sum (eqs. 4-5; the bias takes nothing).

    Since x+ w+ + x- w- = (x w + |x| |w|) / 2, and x w = output - bias is there from the forward
    pass, three products do the work of six. In place where it can be: this is the hot loop, and
    `known` is another way to the absolutes for those who have them already, `room` to memory.
    """
    magnitude, (weights, less) = torch.abs(x, out=room("magnitude", x.shape, x)), known(w, bias)
    # A sum without a positive part is 0, but would come out as rounding noise of either sign:
    # less |x| |w| by a few units in its last place, it comes out below, and counts as 0.
    twice = torch.sub(output, less, out=room("twice", output.shape, output))
    twice.addmm_(magnitude, weights.t(), alpha=1 - _noise(x))
    # One pass finds the zeros: whatever is divided by infinity is nothing.
    twice = torch.threshold_(twice, 2 * EPSILON, float("inf"))
    share = torch.div(relevance, twice, out=twice)
    signed = blocked_matmul.multiply(share, w)
    unsigned = blocked_matmul.multiply(share, weights, out=room("unsigned", x.shape, x))
    return signed.mul_(x).addcmul_(magnitude, unsigned)


def _noise(tensor: Tensor) -> float:
    return 8 * torch.finfo(tensor.dtype).eps


def separate_linear(relevance: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """Positive inputs and negative inputs each over their own sum: the LRP baselines' rule.

    Where both sums exist each passes the whole relevance on, so that it about doubles.
    """
    total = torch.zeros_like(x)
    for inputs, weights in ((x.clamp(min=0), w.clamp(min=0)), (x.clamp(max=0), w.clamp(max=0))):
        share = ratio(relevance, inputs @ weights.t(), EPSILON)
        total += inputs * (share @ weights)
    return total


def contributions(
    relevance: Tensor,
    inputs: Sequence[Tensor],
    output: Tensor,
    back: Callable[[Tensor], Sequence[Tensor]],
    parts: int = 1,
) -> list[Tensor]:
    """Signed contributions to an output that is linear in each input, in so many equal parts.

    `back(share)` is the operation's own backward, one tensor per input.
    """
    share = ratio(relevance, output, EPSILON)
    return [x * b / parts for x, b in zip(inputs, back(share), strict=True)]


def matmul(relevance: Tensor, left: Tensor, right: Tensor, product: Tensor) -> list[Tensor]:
    """Signed contributions to both factors, half of the relevance to each."""
    half = ratio(relevance, product, EPSILON).mul_(0.5)
    return [
        (half @ right.transpose(-2, -1)).mul_(left),
        (left.transpose(-2, -1) @ half).mul_(right),
    ]


def addends(
    relevance: Tensor,
    left: Tensor,
    right: Tensor,
    whole: Tensor,
    per_sample: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Signed contributions, rescaled so that neither side outgrows the whole (eqs. 8-10).

    `per_sample` sums over a sample and keeps the tensor's rank.
    """
    parts = plain_addends(relevance, left, right, whole)
    sums = torch.stack([per_sample(part) for part in parts])
    sizes = sums.abs()
    shared = ratio(sizes, sizes[0] + sizes[1], EPSILON).mul_(per_sample(relevance))
    for part, factor in zip(parts, ratio(shared, sums, EPSILON), strict=True):
        part.mul_(factor)
    return parts


def plain_addends(
    relevance: Tensor, left: Tensor, right: Tensor, whole: Tensor
) -> tuple[Tensor, Tensor]:
    """Signed contributions of two addends to the whole, as they are."""
    share = ratio(relevance, whole, EPSILON)
    return left * share, share.mul_(right)


def pixels(
    relevance: Tensor,
    x: Tensor,
    w: Tensor,
    apply: Callable[[Tensor, Tensor], Tensor],
    back: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """The z^B rule for inputs in a box: each image's own minimum and maximum.

    `apply(x, w)` is the convolution without bias, `back(share, w)` its backward to the input.
    """
    every = tuple(range(1, x.dim()))
    low = x.amin(every, keepdim=True).expand_as(x)
    high = x.amax(every, keepdim=True).expand_as(x)
    above, below = w.clamp(min=0), w.clamp(max=0)
    share = ratio(relevance, apply(x, w) - apply(low, above) - apply(high, below), EPSILON)
    return x * back(share, w) - low * back(share, above) - high * back(share, below)
