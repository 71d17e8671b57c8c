"""Blocks that mix tokens without softmax attention, which methods that read maps do not see.

Read off a pass in which every attention map is cut to its diagonal (see `structure`): a token that
still depends on others was mixed by a convolution, a state space, linear attention, ...
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from whyformer.attribution import Reason
from whyformer.engine.forward import Trace
from whyformer.engine.run import Run


def mixing_reasons(run: Run, trace: Trace, with_maps: Collection[int]) -> tuple[Reason, ...]:
    """Return the blocks that mix tokens by other means than attention.

    `with_maps` has the numbers of the blocks in which an attention map was seen.
    """
    if run.stacks.only is None:
        return ()
    count = len(trace.entering)
    mixing = [k for k in range(count) if _mixes(run, trace, k, unknown=k not in with_maps)]
    if not mixing:
        return ()
    unseen = [k for k in mixing if k not in with_maps]
    partly = [k for k in mixing if k in with_maps]
    names = module_names(run, [trace.entered[k] for k in mixing])
    found = []
    if unseen:
        found.append(f"{_subject(unseen, count)} tokens without softmax attention")
    if partly:
        found.append(f"{_subject(partly, count)} tokens beside softmax attention")
    text = (
        f"attention maps do not show all of {run.name}: {' and '.join(found)}, and methods that"
        " read attention maps do not see that. Use a method that conserves relevance, such as"
        " 'libragrad'."
    )
    return (Reason("layers", "warning", text, names, len(mixing) / count),)


def _mixes(run: Run, trace: Trace, k: int, unknown: bool) -> bool:
    """Whether a token that leaves block k depends on other tokens, apart from its attention.

    `unknown` is the answer for a block that has no backward pass.
    """
    entering = trace.entering[k]
    leaving = trace.entering[k + 1] if k + 1 < len(trace.entering) else trace.leaving[-1]
    out = run.put_batch_first(leaving)
    if leaving.shape[:2] != entering.shape[:2] or not leaving.requires_grad:
        return False  # tokens are merged: the pass refuses to chain such maps itself
    rows, last = torch.arange(len(out), device=out.device), _last_tokens(run, out)
    chosen = out[rows, last]
    value = (chosen * weights_like(chosen)).sum()
    try:
        slopes = slopes_at(value, [entering, *lowest_states(trace, k)])
    except RuntimeError:
        return unknown
    for slope in slopes:
        others = run.put_batch_first(slope).clone()
        others[rows, last] = 0
        if bool((others != 0).any()):
            return True
    return False


def lowest_states(trace: Trace, block: int) -> list[Tensor]:
    """Return the token states themselves, for the first block: modules beside it may read them."""
    return [*trace.states.values()] if block == 0 else []


def slopes_at(value: Tensor | float, places: list[Tensor]) -> list[Tensor]:
    """Return the gradients of a value at some tensors, those that it reaches."""
    if not isinstance(value, Tensor) or not value.requires_grad:
        return []
    found = torch.autograd.grad(value, places, retain_graph=True, allow_unused=True)
    return [slope for slope in found if slope is not None]


def _last_tokens(run: Run, states: Tensor) -> Tensor:
    """The position of each sample's last real token, (batch,)."""
    mask = run.batch.mask
    count = states.shape[1]
    if mask is None or mask.shape != states.shape[:2]:
        return torch.full((len(states),), count - 1, device=states.device)
    positions = torch.arange(count, device=mask.device).expand_as(mask)
    return positions.masked_fill(~mask, 0).amax(1).to(states.device)


def weights_like(tensor: Tensor) -> Tensor:
    """Return weights that differ from entry to entry: a softmax sums to 1, a norm to 0."""
    numbers = torch.arange(tensor.numel(), device=tensor.device).cos() + 2
    return numbers.reshape(tensor.shape).to(tensor.dtype)


def _subject(blocks: Sequence[int], count: int) -> str:
    """ "layer 0 of 2 mixes" or "layers 0 and 1 of 3 mix"."""
    if len(blocks) == 1:
        return f"layer {blocks[0]} of {count} mixes"
    return f"layers {', '.join(map(str, blocks[:-1]))} and {blocks[-1]} of {count} mix"


def module_names(run: Run, blocks: Sequence[nn.Module]) -> tuple[str, ...]:
    """Return the paths of some modules of the model."""
    paths = {part: name for name, part in run.module.named_modules()}
    return tuple(paths.get(block, type(block).__name__) for block in blocks)
