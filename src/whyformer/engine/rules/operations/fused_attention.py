"""The attention map of fused attention, whole or in blocks of queries.

The map is computed from queries and keys, its gradient from the output's gradient and the values.
Keeping these four instead of the map needs memory linear in the tokens; any rows of the map and of
its gradient can be computed from them later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from whyformer.engine.rules.operations.stabilise import wide

# Entries of a block's map: large enough for fast products, small enough for a processor's cache.
ENTRIES = 2**21
# Queries per block at least: with fewer, products are slow even if they fit the cache.
FEWEST = 32
# A map of this many entries costs no more than the fused kernel and may be kept. Half precision
# always uses the kernel, which computes in float32 inside.
SMALL = 2**19

Queries = Tensor | slice


class FusedCall(NamedTuple):
    """The arguments of F.scaled_dot_product_attention."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


def is_small(call: FusedCall) -> bool:
    """Whether the map is small enough to be kept."""
    query, key = call.query, call.key
    entries = math.prod(query.shape[:-1]) * key.shape[-2]
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
    """The attention map (..., query, key) and the values (..., key, feature) of every head.

    The relevance rules pass versions of the four operations that carry relevance.
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
    """The queries times the call's scale, by default 1 / sqrt(features)."""
    return scale(query, 1 / math.sqrt(query.shape[-1]) if call.scale is None else call.scale)


def masked_softmax(
    scores: Tensor,
    mask: Tensor | None,
    add: Callable[[Tensor, Tensor], Tensor] = torch.add,
    softmax: Callable[[Tensor], Tensor] = _softmax,
) -> Tensor:
    """The softmax of the scores under a boolean or additive mask."""
    if mask is None:
        return softmax(scores)
    if mask.dtype != torch.bool:
        return softmax(add(scores, mask))
    # A query whose keys are all masked gets zeros, as in the fused kernels.
    blind = ~mask.any(-1, keepdim=True)
    attention = softmax(scores.masked_fill(~(mask | blind), float("-inf")))
    return attention.masked_fill(blind, 0.0) if blind.any() else attention


class Block(NamedTuple):
    """Attention from some queries to the keys that they can see."""

    queries: Queries
    keys: slice
    attention: Tensor  # (..., queries, keys)
    value: Tensor  # (..., keys, features)
    scores: Tensor  # (..., queries, keys), before the mask
    query: Tensor  # (..., queries, features), scaled
    key: Tensor  # (..., keys, features)


def repeat_shared_keys(call: FusedCall) -> FusedCall:
    """The call with keys and values repeated for every head, if heads share them."""
    if not call.enable_gqa:
        return call
    key, value = (
        shared.repeat_interleave(call.query.shape[-3] // shared.shape[-3], dim=-3)
        for shared in (call.key, call.value)
    )
    return call._replace(key=key, value=value, enable_gqa=False)


def four_axes(call: FusedCall) -> FusedCall:
    """The call with tensors (batch, head, token, feature) and with keys for every head.

    In other shapes torch falls back to a kernel that stores the map.
    """
    call = repeat_shared_keys(call)
    query, key, value, mask = call.query, call.key, call.value, call.attn_mask
    missing = 4 - query.dim()
    if missing > 0:
        query, key, value = (t[(None,) * missing] for t in (query, key, value))
        mask = mask[None] if mask is not None and mask.dim() == 3 else mask
    return call._replace(query=query, key=key, value=value, attn_mask=mask)


def detached_call(call: FusedCall) -> FusedCall:
    """The call with detached tensors."""
    query, key, value = (t.detach() for t in (call.query, call.key, call.value))
    mask = None if call.attn_mask is None else call.attn_mask.detach()
    return call._replace(query=query, key=key, value=value, attn_mask=mask)


def wide_call(call: FusedCall) -> FusedCall:
    """The call with detached tensors in at least float32."""
    call = detached_call(call)
    query, key, value = (wide(t) for t in (call.query, call.key, call.value))
    mask = call.attn_mask
    if mask is not None and mask.is_floating_point():
        mask = wide(mask)
    return call._replace(query=query, key=key, value=value, attn_mask=mask)


def blocks(call: FusedCall, positions: Tensor | None = None) -> Iterator[Block]:
    """The attention of the queries at `positions` (all queries if None), block by block."""
    query, key = call.query, call.key
    count = query.shape[-2]
    size = max(FEWEST, ENTRIES // (query[..., 0, 0].numel() * key.shape[-2]))
    positions = None if positions is None or len(positions) == count else positions
    for start in range(0, count if positions is None else len(positions), size):
        some = slice(start, start + size)
        queries: Queries = some if positions is None else positions[some]
        yield _block(call, queries, _places(queries, count, query.device))


def _block(call: FusedCall, queries: Queries, places: Tensor) -> Block:
    mask, keys = _visible(call, queries, places)
    query = scale_query(call, call.query[..., queries, :])
    key, value = call.key[..., keys, :], call.value[..., keys, :]
    scores = query @ key.transpose(-2, -1)
    return Block(queries, keys, masked_softmax(scores, mask), value, scores, query, key)


def _places(queries: Queries, count: int, device: torch.device) -> Tensor:
    """The positions of the queries, (queries,)."""
    if isinstance(queries, Tensor):
        return queries
    return torch.arange(*queries.indices(count), device=device)


def _visible(call: FusedCall, queries: Queries, places: Tensor) -> tuple[Tensor | None, slice]:
    """The mask of these queries (None: nothing is masked), and the keys that any of them sees."""
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
        return mask, slice(0, count)  # a query without visible keys needs the whole mask
    columns = seen.flatten(0, -2).any(0).nonzero()
    keys = slice(int(columns[0]), int(columns[-1]) + 1)
    mask = mask[..., keys]
    idle = mask.all() if mask.dtype == torch.bool else not mask.any()
    return (None if idle else mask), keys


def reached_queries(arriving: Tensor) -> Tensor:
    """Positions of the queries whose gradient or relevance is not all 0, (queries,)."""
    return arriving.reshape(-1, *arriving.shape[-2:]).any(-1).any(0).nonzero().flatten()
