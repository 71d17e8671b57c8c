"""Formulas for the relevance of an operation's inputs (Chefer et al., CVPR 2021, eqs. 2-10).

Pure functions of plain tensors; `w` is (out, in) as in a linear layer. Every sum that normalises
is over one sample: the authors' code has batches of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from whyformer.engine.rules.operations.matrix_product import multiply
from whyformer.engine.rules.operations.stabilise import ratio

EPSILON = 1e-9  # the authors' value; here it takes the sign of the denominator


def positive_linear(
    relevance: Tensor, x: Tensor, w: Tensor, output: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Relevance of x by positive contributions, over their joint sum (eqs. 4-5); none to the bias.

    x+ w+ + x- w- = (x w + |x| |w|) / 2, and x w = output - bias is known from the forward pass,
    so that three products do the work of six. In place where possible: this is the hot loop.
    """
    magnitude, weights = x.abs(), w.abs()
    # Without a positive contribution the sum is 0, but rounding would give noise of either sign.
    # Subtracting a few units in the last place of |x| |w| makes it negative, which counts as 0.
    excess: Tensor | float = -2 * EPSILON
    if bias is not None:
        excess = torch.add(bias, bias.abs(), alpha=_noise(bias)).sub_(2 * EPSILON)
    # Not by `multiply`: |x| |w| has to be rounded as the output was, by the same library.
    twice = torch.sub(output, excess).addmm_(magnitude, weights.t(), alpha=1 - _noise(x))
    # Division by infinity gives 0, so that zeros need no second pass.
    twice = torch.threshold_(twice, 2 * EPSILON, float("inf"))
    share = torch.div(relevance, twice, out=twice)
    return multiply(share, w).mul_(x).addcmul_(magnitude, multiply(share, weights))


def _noise(tensor: Tensor) -> float:
    return 8 * torch.finfo(tensor.dtype).eps


def separate_linear(relevance: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """Relevance of x, with positive and negative inputs each over their own sum (LRP baselines).

    If an output has both, each sum passes on the whole relevance, so that it doubles.
    """
    total = torch.zeros_like(x)
    for inputs, weights in ((x.clamp(min=0), w.clamp(min=0)), (x.clamp(max=0), w.clamp(max=0))):
        share = ratio(relevance, inputs @ weights.t(), EPSILON)
        total += inputs * multiply(share, weights)
    return total


def contributions(
    relevance: Tensor,
    inputs: Sequence[Tensor],
    output: Tensor,
    back: Callable[[Tensor], Sequence[Tensor]],
    parts: int = 1,
) -> list[Tensor]:
    """Relevance of the inputs by signed contributions, divided by `parts`.

    The output must be linear in each input. `back(share)` is the operation's own backward, one
    tensor per input.
    """
    share = ratio(relevance, output, EPSILON)
    return [x * b / parts for x, b in zip(inputs, back(share), strict=True)]


def matmul(relevance: Tensor, left: Tensor, right: Tensor, product: Tensor) -> list[Tensor]:
    """Relevance of both factors by signed contributions, half to each."""
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
    """Relevance of two addends, rescaled so that neither exceeds the whole (eqs. 8-10).

    `per_sample` sums over a sample, in a shape that broadcasts with the tensor.
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
    """Relevance of two addends by signed contributions, not rescaled."""
    share = ratio(relevance, whole, EPSILON)
    return left * share, share.mul_(right)


def pixels(
    relevance: Tensor,
    x: Tensor,
    w: Tensor,
    apply: Callable[[Tensor, Tensor], Tensor],
    back: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Relevance of pixels by the z^B rule; the box is from each image's minimum to its maximum.

    `apply(x, w)` is the convolution without bias, `back(share, w)` its backward to the input.
    """
    every = tuple(range(1, x.dim()))
    low = x.amin(every, keepdim=True).expand_as(x)
    high = x.amax(every, keepdim=True).expand_as(x)
    above, below = w.clamp(min=0), w.clamp(max=0)
    share = ratio(relevance, apply(x, w) - apply(low, above) - apply(high, below), EPSILON)
    return x * back(share, w) - low * back(share, above) - high * back(share, below)


def vector_jacobian(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], share: Tensor
) -> tuple[Tensor, ...]:
    """The gradients of `function` at the inputs for the output gradient `share`, one per input."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(function(*leaves), leaves, share)
