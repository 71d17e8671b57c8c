"""Walks down the attention layers, from the deciding token to the input tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from whyformer.engine.passes.attentions import Attentions
from whyformer.engine.passes.relevances import Relevances
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.engine.streamed_layers import map_dtype
from whyformer.errors import OptionError
from whyformer.methods.attention.mixing import Mixing
from whyformer.models.families import Pair

_AVERAGED = 50  # how much smaller errors are in the mean over heads than in single entries


def walk_stacks(
    seen: Attentions,
    found: Sequence[Mixing],
    reduce: str,
    *,
    residual: bool = True,
    normalize: bool = False,
) -> MethodResult:
    """Return the scores of walks down stacks without cross-attention.

    Each walk starts at the stack's deciding token, or for reduce="column_sum" at all real tokens
    together: the sum of rows passes through the products. If the whole relevancy is kept, the walk
    starts at every token.
    """
    scores: Scores = {}
    maps: dict[Pair, Tensor] = {}
    for stack in seen.deciding:
        own = (mixing for mixing in reversed(found) if mixing.asking == stack)
        start = _start(seen, stack, reduce).unsqueeze(1)
        rows = start
        if seen.keeps_maps(stack):
            rows = torch.diag_embed(seen.layout.masks[stack].to(start.dtype))
        rows = walk_down(rows, own, residual=residual, normalize=normalize)
        if seen.keeps_maps(stack):
            maps[stack, stack] = rows
            rows = start.to(rows.dtype) @ rows
        scores[stack] = rows.squeeze(1)
    return seen.result(scores, maps)


def read_maps(
    seen: Attentions, maps: Mapping[Pair, Tensor], reduce: str, keep: bool = True
) -> MethodResult:
    """Return the scores at the deciding tokens of the relevancies between stacks."""
    scores: Scores = {}
    for (asking, answering), relevancy in maps.items():
        if asking in seen.deciding:
            start = _start(seen, asking, reduce).to(relevancy.dtype).unsqueeze(1)
            found = (start @ relevancy).squeeze(1)
            scores[answering] = scores[answering] + found if answering in scores else found
    return seen.result(scores, maps if keep else {})


def weigh_rounding(seen: Relevances, result: MethodResult) -> MethodResult:
    """Return the result with the rounding error of scores that a walk begins at themselves.

    Only what the maps add to the start can be wrong. It is the mean over heads of products with
    the gradient, which keeps about a fiftieth of the error of single entries (measured).
    """
    shares = []
    for stack, scores in result.scores.items():
        # Images among the tokens of a text are a stream without the deciding token.
        starts = stack in seen.deciding and seen.run.batch.soft is None
        start = seen.deciding[stack].to(scores) if starts else 0.0
        learned = (scores - start).abs()
        for segment in seen.layout.segments.get(stack, ()):  # judged one by one
            columns = segment.columns
            shares.append(ratio(learned[:, columns].amax(1), scores[:, columns].abs().amax(1)))
    if seen.rounding is None or not shares:
        return result
    share = torch.stack([one.to(shares[0]) for one in shares]).amax(0).to(seen.rounding)
    return replace(result, rounding=seen.rounding * share / _AVERAGED)


def walk_down(
    rows: Tensor, found: Iterable[Mixing], *, residual: bool = True, normalize: bool = False
) -> Tensor:
    """Return rows @ M_last @ ... @ M_first with M = mixing + identity, (batch, rows, tokens).

    Multiplying from the top row by row gives the papers' product, but costs only a vector times a
    matrix per layer and needs no whole map. `normalize` makes each row of M sum to 1.
    """
    for mixing in found:
        queries = rows.flatten(0, 1).any(0).nonzero().flatten()
        below = torch.zeros_like(rows)
        for some, keys, strip in mixing.strips(queries):
            weights = rows[..., some]
            if normalize:
                sums = strip.sum(-1) + 1 if residual else strip.sum(-1)
                weights = ratio(weights, sums.unsqueeze(1))
            below[..., keys] += weights @ strip
            if residual:
                below[..., some] += weights
        rows = below
    return rows


def add_residual(mixing: Tensor, residual: bool = True, normalize: bool = False) -> Tensor:
    """Return one layer's step, mixing + identity; with `normalize` each row sums to 1."""
    if residual:
        mixing = mixing + torch.eye(mixing.shape[-1], dtype=mixing.dtype, device=mixing.device)
    return ratio(mixing, mixing.sum(-1, keepdim=True)) if normalize else mixing


def _start(seen: Attentions, stack: str, reduce: str) -> Tensor:
    """Where a walk starts, (batch, tokens)."""
    if reduce not in ("row", "column_sum"):
        raise OptionError(
            f"reduce={reduce!r} is unknown", argument="reduce", remedy="Use 'row' or 'column_sum'"
        )
    start = seen.deciding[stack] if reduce == "row" else seen.layout.masks[stack]
    return start.to(map_dtype(seen.layers[0]))
