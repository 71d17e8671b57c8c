"""Relevancies between stacks (Chefer et al., ICCV 2021, eqs. 6-11), and their baselines' forms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.methods.attention.mixing import Mixing, meet, moments, stepped, walk
from whyformer.models.families import Pair

Relevancies = dict[Pair, Tensor]  # (batch, tokens, tokens): of the second's to the first's


def propagated(
    capture: Capture,
    found: Sequence[Mixing],
    *,
    normalize: bool = True,
    self_in_rule_10: bool = True,
    aggregate: bool = True,
) -> Relevancies:
    """Every relevancy after all layers, eqs. 6-11.

    The three switches are the authors' ablations: eqs. 8-9, the self-relevancies in eq. 10, and
    adding to what is there instead of replacing it.
    """
    relevancy = _start(capture, found)
    own = {stack: start for (stack, _), start in relevancy.items()}

    def weighing(stack: str) -> Tensor:
        return (
            _normalised(relevancy[stack, stack], own[stack])
            if normalize
            else relevancy[stack, stack]
        )

    for moment in moments(found):
        # All of a moment's are computed before any is added: they saw the same states.
        changes: Relevancies = {}
        for mixing in moment:
            a, b = mixing.pair
            for c in own:
                if c == b and not mixing.within:
                    change = mixing.matrix  # eq. 10; the asking side's is transposed
                    if self_in_rule_10:
                        change = weighing(a).transpose(1, 2) @ change @ weighing(b)
                elif (b, c) in relevancy:
                    change = mixing.matrix @ relevancy[b, c]  # eqs. 6 and 7, eq. 11 where c is a
                elif aggregate or (a, c) not in relevancy:
                    continue
                else:
                    change = torch.zeros_like(relevancy[a, c])
                if not aggregate and (a, c) in relevancy:
                    # Where the target wants nothing of a layer, it is as if it were not there.
                    idle = (mixing.matrix == 0).flatten(1).all(1).reshape(-1, 1, 1)
                    change = torch.where(idle, relevancy[a, c], change)
                changes[a, c] = change
        for pair, change in changes.items():
            adds = aggregate and pair in relevancy
            relevancy[pair] = relevancy[pair] + change if adds else change
    return relevancy


def rolled_out(
    capture: Capture, found: Sequence[Mixing], residual: bool, normalize: bool
) -> Relevancies:
    """Rollout in its bi-modal form: R_ab = R_aa^T . cross . R_bb, each as it was at that moment."""
    relevancy = _start(capture, found)
    reached = {stack: _reached(capture, found, stack).unsqueeze(2) for stack, _ in relevancy}
    for moment in moments(found):
        changes: Relevancies = {}
        for mixing in moment:
            a, b = mixing.pair
            real = reached[a]
            if mixing.within:
                step = stepped(mixing.matrix, residual, normalize) * real
                changes[a, a] = step @ relevancy[a, a]
                continue
            into = relevancy[a, a].transpose(1, 2) @ (mixing.matrix * real)
            changes |= {
                (a, c): into @ relevancy[of, c] for of, c in relevancy if of == b and c != a
            }
        relevancy |= changes
    return relevancy


def read_last(capture: Capture, found: Sequence[Mixing], reduce: str, layer: int = -1) -> Scores:
    """Scores of the last map, or of the layer's, that each pair of stacks has.

    Where stacks meet only by way of a third, through both maps.
    """
    by_pair: dict[Pair, list[Mixing]] = {}
    for mixing in found:
        by_pair.setdefault(mixing.pair, []).append(mixing)
    last = [each[max(layer, -len(each))] for each in by_pair.values()]
    if not meet(last):
        return walk(capture, last, reduce, residual=False)
    real = {stack: mask.unsqueeze(2) for stack, mask in capture.masks.items()}
    maps = {mixing.pair: mixing.matrix * real[mixing.asking] for mixing in last}
    return capture.read_maps(_through(maps), reduce)


def with_last_cross(capture: Capture, found: Sequence[Mixing], normalize: bool) -> Relevancies:
    """Self-attention rolled out, and the last map of each pair that meets."""
    relevancy = _start(capture, found)
    crossing: Relevancies = {}
    for mixing in found:
        a, b = mixing.pair
        if mixing.within:
            relevancy[a, a] = stepped(mixing.matrix, normalize=normalize) @ relevancy[a, a]
        elif capture.stacks.tracks[a].stack.hidden:
            crossing[a, b] = mixing.matrix @ relevancy[b, b]  # a pooler reads what has come up
        else:
            crossing[a, b] = mixing.matrix
    return relevancy | _through(crossing)


def _reached(capture: Capture, found: Sequence[Mixing], stack: str) -> Tensor:
    """The tokens that the deciding ones of their stack have looked at, (batch, tokens).

    Padding looks at real tokens, and so does what comes later in a text: transposed, as eq. 10
    has it, real tokens would look back at them.
    """
    if stack not in capture.deciding:
        return capture.masks[stack]
    seen = (capture.deciding[stack] != 0).to(found[0].matrix.dtype).unsqueeze(1)
    for mixing in reversed(found):
        if mixing.within and mixing.asking == stack:
            seen = ((seen + seen @ mixing.matrix.abs()) != 0).to(seen.dtype)
    return (seen.squeeze(1) != 0) & capture.masks[stack]


def _start(capture: Capture, found: Sequence[Mixing]) -> Relevancies:
    """Every token explains itself; a pair of stacks that has not met has no entry."""
    some = found[0].matrix
    stacks = dict.fromkeys(stack for mixing in found for stack in mixing.pair)
    return {(s, s): torch.diag_embed(capture.masks[s].to(some)) for s in stacks}


def _normalised(relevancy: Tensor, own: Tensor) -> Tensor:
    """Each row's part beside itself scaled to add up to 1 (eqs. 8-9); a row of nothing stays so."""
    beside = relevancy - own
    return ratio(beside, beside.sum(-1, keepdim=True)) + own


def _through(maps: Relevancies) -> Relevancies:
    """The maps, and products of two of them between stacks that meet only by way of a third."""
    via = {
        (a, c): first @ second
        for (a, b), first in maps.items()
        for (also, c), second in maps.items()
        if b == also and len({a, b, c}) == 3 and (a, c) not in maps
    }
    return via | maps
