"""Fused attention taken apart: its map, whole or a block of queries at a time.

A map is a product of queries and keys, its gradient one of what came back to the output and the
values. Whoever keeps these four has every row of both when it is wanted, and memory stays linear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whyformer.engine.rules.operations.stabilise import ratio, wide
from whyformer.engine.rules.relevance import shares

# Entries of a block's map: large enough for the products, small enough for a processor's cache.
ENTRIES = 2**21
# Queries of a block at least: with fewer the products are slow, whatever fits the cache.
FEWEST = 32
# Entries of a map that costs no more than the fused kernel and may be kept instead of computed
# again. Half precision always goes through the kernel, which is more exact inside.
SMALL = 2**19

Queries = Tensor | slice


class FusedCall(NamedTuple):
    """The arguments of scaled_dot_product_attention, by name."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


def is_small(call: FusedCall) -> bool:
    """Whether the map may be kept."""
    query, key = call.query, call.key
    entries = query[..., 0].numel() * key.shape[-2]
    return entries <= SMALL and query.dtype in (torch.float32, torch.float64)


def _softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores, dim=-1)


def attention_weights(
    call: FusedCall,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
    scale: Callable[[Tensor, float], Tensor] = torch.mul,
    add: Callable[[Tensor, Tensor], Tensor] = torch.add,
    softmax: Callable[[Tensor], Tensor] = _softmax,
) -> tuple[Tensor, Tensor]:
    """The attention map of fused attention, and the values that it multiplies, head by head.

    A tier with rules of its own passes its own operations.
    """
    call = repeat_shared_keys(call)
    query, key, value = call.query, call.key, call.value
    # Scaling the queries is cheaper than scaling the scores.
    scores = multiply(scale_query(call, query, scale), key.transpose(-2, -1))
    mask = call.attn_mask
    if call.is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    return masked_softmax(scores, mask, add, softmax), value


def scale_query(
    call: FusedCall, query: Tensor, scale: Callable[[Tensor, float], Tensor] = torch.mul
) -> Tensor:
    """The queries times the factor that the call names, or torch's own."""
    return scale(query, 1 / math.sqrt(query.shape[-1]) if call.scale is None else call.scale)


def masked_softmax(
    scores: Tensor,
    mask: Tensor | None,
    add: Callable[[Tensor, Tensor], Tensor] = torch.add,
    softmax: Callable[[Tensor], Tensor] = _softmax,
) -> Tensor:
    """The attention map that masked scores give."""
    if mask is None:
        return softmax(scores)
    if mask.dtype != torch.bool:
        return softmax(add(scores, mask))
    # A query that may look nowhere gets zeros, as the fused kernels give it.
    blind = ~mask.any(-1, keepdim=True)
    attention = softmax(scores.masked_fill(~(mask | blind), float("-inf")))
    return attention.masked_fill(blind, 0.0) if blind.any() else attention


class Block(NamedTuple):
    """Attention for some of the queries, and the values that it mixes.

    No other query and no key outside of `keys` takes part.
    """

    queries: Queries
    keys: slice
    attention: Tensor  # (..., queries, keys)
    value: Tensor  # (..., keys, features)
    scores: Tensor  # what the softmax was of, before any mask
    query: Tensor  # scaled
    key: Tensor


def repeat_shared_keys(call: FusedCall) -> FusedCall:
    """The same attention, each head with keys and values of its own."""
    if not call.enable_gqa:
        return call
    key, value = (
        shared.repeat_interleave(call.query.shape[-3] // shared.shape[-3], dim=-3)
        for shared in (call.key, call.value)
    )
    return call._replace(key=key, value=value, enable_gqa=False)


def four_axes(call: FusedCall) -> FusedCall:
    """The same attention as (samples, heads, tokens, features), each head with keys of its own.

    The fused kernels hold no map only if they are asked in this form.
    """
    call = repeat_shared_keys(call)
    query, key, value, mask = call.query, call.key, call.value, call.attn_mask
    missing = 4 - query.dim()
    if missing > 0:
        query, key, value = (t[(None,) * missing] for t in (query, key, value))
        mask = mask[None] if mask is not None and mask.dim() == 3 else mask
    return call._replace(query=query, key=key, value=value, attn_mask=mask)


def wide_call(call: FusedCall) -> FusedCall:
    """The same attention in at least float32, followed by no gradient."""
    query, key, value = (wide(t.detach()) for t in (call.query, call.key, call.value))
    mask = call.attn_mask
    if mask is not None:
        mask = wide(mask.detach()) if mask.is_floating_point() else mask.detach()
    return call._replace(query=query, key=key, value=value, attn_mask=mask)


def blocks(call: FusedCall, wanted: Tensor | None = None) -> Iterator[Block]:
    """The attention of all queries, or of the wanted ones, in blocks of some."""
    query, key = call.query, call.key
    count = query.shape[-2]
    size = max(FEWEST, ENTRIES // (query[..., 0, 0].numel() * key.shape[-2]))
    chosen = None if wanted is None or len(wanted) == count else wanted
    for start in range(0, count if chosen is None else len(chosen), size):
        some = slice(start, start + size)
        queries: Queries = some if chosen is None else chosen[some]
        yield _block(call, queries, _places(queries, count, query.device))


def _block(call: FusedCall, queries: Queries, places: Tensor) -> Block:
    mask, keys = _visible(call, queries, places)
    query = scale_query(call, call.query[..., queries, :])
    key, value = call.key[..., keys, :], call.value[..., keys, :]
    scores = query @ key.transpose(-2, -1)
    return Block(queries, keys, masked_softmax(scores, mask), value, scores, query, key)


def _places(queries: Queries, count: int, device: torch.device) -> Tensor:
    """The queries' positions."""
    if isinstance(queries, Tensor):
        return queries
    return torch.arange(*queries.indices(count), device=device)


def _visible(call: FusedCall, queries: Queries, places: Tensor) -> tuple[Tensor | None, slice]:
    """The mask of these queries, and the keys that any of them may look at."""
    count = call.key.shape[-2]
    if call.is_causal:
        stop = min(int(places[-1]) + 1, count)
        return torch.arange(stop, device=places.device) <= places[:, None], slice(0, stop)
    mask = call.attn_mask
    if mask is None:
        return None, slice(0, count)
    if mask.shape[-2] == call.query.shape[-2]:
        mask = mask[..., queries, :]
    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    if mask.shape[-1] != count or not seen.any(-1).all():
        return mask, slice(0, count)  # who may look nowhere looks everywhere, or gets nothing
    columns = seen.flatten(0, -2).any(0).nonzero()
    keys = slice(int(columns[0]), int(columns[-1]) + 1)
    mask = mask[..., keys]
    idle = mask.all() if mask.dtype == torch.bool else not mask.any()
    return (None if idle else mask), keys


def relevance_shares(
    call: FusedCall, relevance: Tensor, inputs: Sequence[Tensor], output: Tensor
) -> list[Tensor]:
    """What queries, keys and values get of an output's relevance, by the rule for products.

    Half of it goes to the values and half through the softmax, unchanged, to queries and keys.
    """
    query, key, value = inputs
    call = call._replace(query=query, key=key, value=value)
    share = ratio(relevance, output, shares.EPSILON)
    parts: Any = [torch.zeros_like(x) for x in inputs]
    for block in blocks(call, reached_queries(relevance)):
        rows = share[..., block.queries, :]
        to_map = block.attention * (rows @ block.value.transpose(-2, -1)) / 2
        back = ratio(to_map, block.scores, shares.EPSILON)
        parts[0][..., block.queries, :] = block.query * (back @ block.key) / 2
        parts[1][..., block.keys, :] += block.key * (back.transpose(-2, -1) @ block.query) / 2
        mixed = block.attention.transpose(-2, -1) @ rows
        parts[2][..., block.keys, :] += block.value * mixed / 2
    return list(parts)


def reached_queries(arriving: Tensor) -> Tensor:
    """The queries that anything came back to."""
    return arriving.reshape(-1, *arriving.shape[-2:]).any(-1).any(0).nonzero().flatten()
