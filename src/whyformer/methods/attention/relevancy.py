"""Relevancy between stacks (Chefer et al., ICCV 2021, eqs. 6-11), and its forms for baselines."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from whyformer.engine.passes.attentions import Attentions
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.methods.attention.mixing import Mixing, has_cross_attention, moments
from whyformer.methods.attention.walk import add_residual, read_maps, walk_stacks
from whyformer.models.families import Pair

Relevancies = dict[Pair, Tensor]  # (batch, query tokens, key tokens) by (query stack, key stack)


def propagate_relevancy(
    seen: Attentions,
    found: Sequence[Mixing],
    *,
    normalize: bool = True,
    self_in_rule_10: bool = True,
    aggregate: bool = True,
) -> Relevancies:
    """Return every relevancy after all layers, eqs. 6-11.

    The three switches are the authors' ablations: eqs. 8-9, the self-relevancies in eq. 10, and
    adding to a relevancy instead of replacing it.
    """
    relevancy = _start(seen, found)
    own = {stack: start for (stack, _), start in relevancy.items()}

    def self_relevancy(stack: str) -> Tensor:
        current = relevancy[stack, stack]
        return _normalize_rows(current, own[stack]) if normalize else current

    for moment in moments(found):
        # Mixings of one moment read the same states: compute all changes before adding any.
        changes: Relevancies = {}
        for mixing in moment:
            a, b = mixing.pair
            for c in own:
                if c == b and not mixing.within:
                    change = mixing.matrix  # eq. 10; the query side is transposed
                    if self_in_rule_10:
                        change = self_relevancy(a).transpose(1, 2) @ change @ self_relevancy(b)
                elif (b, c) in relevancy:
                    change = mixing.matrix @ relevancy[b, c]  # eqs. 6 and 7, eq. 11 where c is a
                elif aggregate or (a, c) not in relevancy:
                    continue
                else:
                    change = torch.zeros_like(relevancy[a, c])
                if not aggregate and (a, c) in relevancy:
                    # A layer whose mixing is all zero does not change the relevancy.
                    idle = (mixing.matrix == 0).flatten(1).all(1).reshape(-1, 1, 1)
                    change = torch.where(idle, relevancy[a, c], change)
                changes[a, c] = change
        for pair, change in changes.items():
            adds = aggregate and pair in relevancy
            relevancy[pair] = relevancy[pair] + change if adds else change
    return relevancy


def roll_out(
    seen: Attentions, found: Sequence[Mixing], residual: bool, normalize: bool
) -> Relevancies:
    """Return rollout in its bi-modal form: R_ab = R_aa^T . cross . R_bb, with R at that layer."""
    relevancy = _start(seen, found)
    reached = {stack: _attended_tokens(seen, found, stack).unsqueeze(2) for stack, _ in relevancy}
    for moment in moments(found):
        changes: Relevancies = {}
        for mixing in moment:
            a, b = mixing.pair
            real = reached[a]
            if mixing.within:
                step = add_residual(mixing.matrix, residual, normalize) * real
                changes[a, a] = step @ relevancy[a, a]
                continue
            into = relevancy[a, a].transpose(1, 2) @ (mixing.matrix * real)
            changes |= {
                (a, c): into @ relevancy[of, c] for of, c in relevancy if of == b and c != a
            }
        relevancy |= changes
    return relevancy


def read_layer(
    seen: Attentions, found: Sequence[Mixing], reduce: str, layer: int = -1
) -> MethodResult:
    """Return the scores of one layer's map of each pair of stacks, by default the last.

    Stacks that are connected only through a third one get the product of both maps.
    """
    by_pair: dict[Pair, list[Mixing]] = {}
    for mixing in found:
        by_pair.setdefault(mixing.pair, []).append(mixing)
    chosen = [each[max(layer, -len(each))] for each in by_pair.values()]
    if not has_cross_attention(chosen):
        return walk_stacks(seen, chosen, reduce, residual=False)
    real = {stack: mask.unsqueeze(2) for stack, mask in seen.layout.masks.items()}
    maps = {mixing.pair: mixing.matrix * real[mixing.asking] for mixing in chosen}
    return read_maps(seen, _add_indirect(maps), reduce)


def roll_out_with_last_cross(
    seen: Attentions, found: Sequence[Mixing], normalize: bool
) -> Relevancies:
    """Return self-attention rolled out, and the last map of each pair with cross-attention."""
    relevancy = _start(seen, found)
    crossing: Relevancies = {}
    for mixing in found:
        a, b = mixing.pair
        if mixing.within:
            relevancy[a, a] = add_residual(mixing.matrix, normalize=normalize) @ relevancy[a, a]
        elif seen.run.stacks.tracks[a].stack.hidden:
            crossing[a, b] = mixing.matrix @ relevancy[b, b]  # a pooler reads the rolled-out tokens
        else:
            crossing[a, b] = mixing.matrix
    return relevancy | _add_indirect(crossing)


def _attended_tokens(seen: Attentions, found: Sequence[Mixing], stack: str) -> Tensor:
    """The tokens that the deciding ones of their stack attended to, (batch, tokens).

    Padding and later tokens attend to real tokens. With eq. 10's transpose, real tokens would
    attend back to them, so such rows must be left out.
    """
    if stack not in seen.deciding:
        return seen.layout.masks[stack]
    read = (seen.deciding[stack] != 0).to(found[0].matrix.dtype).unsqueeze(1)
    for mixing in reversed(found):
        if mixing.within and mixing.asking == stack:
            read = ((read + read @ mixing.matrix.abs()) != 0).to(read.dtype)
    return (read.squeeze(1) != 0) & seen.layout.masks[stack]


def _start(seen: Attentions, found: Sequence[Mixing]) -> Relevancies:
    """The identity of each stack; pairs of stacks have no entry before their first attention."""
    some = found[0].matrix
    stacks = dict.fromkeys(stack for mixing in found for stack in mixing.pair)
    return {(s, s): torch.diag_embed(seen.layout.masks[s].to(some)) for s in stacks}


def _normalize_rows(relevancy: Tensor, own: Tensor) -> Tensor:
    """Each row without its own entry scaled to sum to 1 (eqs. 8-9); zero rows stay zero."""
    others = relevancy - own
    return ratio(others, others.sum(-1, keepdim=True)) + own


def _add_indirect(maps: Relevancies) -> Relevancies:
    """The maps, and products of two of them for stacks connected only through a third."""
    via = {
        (a, c): first @ second
        for (a, b), first in maps.items()
        for (also, c), second in maps.items()
        if b == also and len({a, b, c}) == 3 and (a, c) not in maps
    }
    return via | maps
