"""Sums of relevance per sample and per token, in the layouts that models use."""

from __future__ import annotations

from torch import Tensor

from whyformer.errors import ModelError


def sum_per_sample(relevance: Tensor, batch: int, batch_first: bool = True) -> Tensor:
    """The sum over all axes but the samples, (batch,).

    Raise ModelError if no axis can be that of the samples.
    """
    if batch == 1:
        return relevance.sum().reshape(1)
    if not batch_first and relevance.dim() == 3 and relevance.shape[1] == batch:
        return relevance.sum(dim=(0, 2))
    if relevance.dim() and relevance.shape[0] == batch:
        return relevance.flatten(1).sum(1) if relevance.dim() > 1 else relevance
    if relevance.dim() and relevance.shape[0] % batch == 0:
        # Samples and tokens in one axis, as in a flattened linear layer.
        if batch_first:
            return relevance.reshape(batch, -1).sum(1)
        return relevance.reshape(-1, batch, relevance[0].numel()).sum(dim=(0, 2))
    raise ModelError(
        f"cannot tell the {batch} samples apart in a tensor of shape {tuple(relevance.shape)}",
        argument="inputs",
        remedy="Explain one sample at a time",
    )


def largest_per_sample(sizes: Tensor, batch: int, batch_first: bool = True) -> Tensor:
    """The largest entry of each sample, (batch,); that of all if samples cannot be told apart."""
    if batch > 1 and not batch_first and sizes.dim() == 3 and sizes.shape[1] == batch:
        return sizes.amax(dim=(0, 2))
    if batch > 1 and batch_first and sizes.dim() and sizes.shape[0] % batch == 0:
        return sizes.reshape(batch, -1).amax(1)
    return sizes.amax().expand(batch)


def spread_sums(relevance: Tensor, batch: int, batch_first: bool = True) -> Tensor:
    """The sums per sample in a shape that broadcasts with the tensor."""
    shape = relevance.shape
    if batch == 1:
        return relevance.sum()
    amounts = sum_per_sample(relevance, batch, batch_first)
    if not batch_first and relevance.dim() == 3 and shape[1] == batch:
        return amounts.reshape(1, batch, 1)
    if shape[0] != batch:  # samples and tokens, or samples and heads, in one axis
        amounts = (
            amounts.repeat_interleave(shape[0] // batch)
            if batch_first
            else amounts.repeat(shape[0] // batch)
        )
    return amounts.reshape(-1, *[1] * (relevance.dim() - 1))


def sum_per_token(
    relevance: Tensor, batch: int, tokens: int, batch_first: bool, folded: bool = True
) -> Tensor | None:
    """The sum over all axes but samples and tokens, (batch, tokens); None if there are none.

    `folded` says whether both may share one axis.
    """
    if batch_first and relevance.shape[:2] == (batch, tokens):
        return relevance.flatten(2).sum(2) if relevance.dim() > 2 else relevance
    if not batch_first and relevance.shape[:2] == (tokens, batch):
        return relevance.transpose(0, 1).reshape(batch, tokens, -1).sum(2)
    if folded and batch_first and relevance.dim() == 2 and len(relevance) == batch * tokens:
        return relevance.reshape(batch, tokens, -1).sum(2)
    return None
