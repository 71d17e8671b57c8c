"""The hooks of a forward pass: they record token states at the entry and exit of the blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.forward import Hook, Trace
from whyformer.engine.rules.ledger import Ledger, Place
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.run import Run
from whyformer.engine.stacks import Track
from whyformer.errors import ModelError, OptionError
from whyformer.models.families import Pair
from whyformer.models.signature import embeddings_of


def state_hooks(run: Run, trace: Trace, ledger: Ledger) -> list[Hook]:
    """Return the hooks that fill `trace` while the model runs."""
    hooks = [
        hook
        for track in run.stacks.tracks.values()
        for hook in _track_hooks(run, track, trace, ledger)
    ]
    for part, pairs in run.stacks.attention_modules:
        hooks += _pair_hooks(part, pairs, trace)
    return hooks


def _track_hooks(run: Run, track: Track, trace: Trace, ledger: Ledger) -> list[Hook]:
    """The hooks along one stack: states enter, pass its blocks, and leave."""
    name = track.name

    def enter(tensor: Tensor) -> Tensor:
        if name in trace.states:
            return tensor
        ledger.inside = True
        _check_states(tensor, run)
        leaf = tensor
        if name in trace.replace:
            leaf = run.stacks.axes.from_tokens(trace.replace[name].to(tensor.dtype), tensor)
        trace.states[name] = leaf
        # A leaf that the pass did not make is no tracked tensor: transformers' gradient
        # checkpointing lets the embeddings require gradients.
        foreign = leaf.is_leaf and not tags.is_own_leaf(leaf)
        if not trace.track or (leaf.requires_grad and not foreign):
            return leaf
        if not torch.is_grad_enabled():
            raise _without_gradients(run)
        # The tensor itself becomes the leaf, because modules beside the first block may read it.
        # The block gets a copy, because some blocks write into their input.
        tags.add_tag(leaf, tags.LEAF).requires_grad_()
        return leaf.clone()

    def leave(tensor: Tensor) -> Tensor:
        # Relevance does not start at a stack that only other stacks read: they are above it.
        if track.stack.read:
            if not trace.track and not tensor.requires_grad:
                trace.exits[name] = tags.add_tag(tensor.detach().requires_grad_(), tags.LEAF)
                trace.leaving.append(trace.exits[name])
                return trace.exits[name].clone()  # some models write into it
            trace.exits[name] = tensor
        trace.leaving.append(tensor)
        return tensor

    def note_leaving(tensor: Tensor) -> Tensor:
        trace.leaving.append(tensor)
        return tensor

    def after_exit(module: nn.Module, args: tuple, output: Any) -> Any:
        ledger.place = None
        return _change_first_tensor(output, leave)

    def after_block(module: nn.Module, args: tuple, output: Any) -> None:
        if not track.whole:
            return  # what it returns is only a part of the states
        # The place stays: what runs between two blocks is above the first one's input.
        _change_first_tensor(output, note_leaving)

    calls = 0

    def before_block(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        nonlocal calls
        with torch._C.DisableTorchFunction():  # nothing here is an operation of the model
            states = first_floating(args, kwargs)
            if states is None:
                return
            trace.entering.append(states)
            trace.entered.append(module)
            ledger.place = Place(name, calls, run.stacks.axes.count(states, run.batch.size))
            calls += 1
            if trace.blocks is not None:
                trace.blocks.watch(name, states)

    hooks: list[Hook] = []
    if track.chain:
        hooks.append(_entry_hook(run, track, trace.at, enter))
    for block in dict.fromkeys(track.chain):
        hooks.append((block, "before", before_block))
        if block is not track.exit:
            hooks.append((block, "after", after_block))
    hooks.append((track.exit, "after", after_exit))
    return hooks


def _pair_hooks(part: nn.Module, pairs: tuple[Pair, ...], trace: Trace) -> list[Hook]:
    """The hooks that record whose tokens the attention inside a module mixes."""
    calls = 0

    def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        nonlocal calls
        turn = calls % len(pairs)
        trace.pairs.append((pairs[turn], turn > 0))
        calls += 1

    def after(module: nn.Module, args: tuple, output: Any) -> None:
        trace.pairs.pop()

    return [(part, "before", before), (part, "after", after)]


def _entry_hook(run: Run, track: Track, at: str, enter: Callable[[Tensor], Tensor]) -> Hook:
    """The hook that sees the token states where relevance is read."""
    if at == "states":

        def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
            states = first_floating(args, kwargs)
            if states is None:
                return None
            copies = _copies_among((*args, *kwargs.values()), states)
            new = enter(states)
            for copy in copies:
                _write(copy, new)
            return tuple(new if a is states else a for a in args), {
                key: new if value is states else value for key, value in kwargs.items()
            }

        return track.chain[0], "before", before
    if at != "embeddings":
        raise OptionError(
            f"at={at!r} is unknown", argument="at", remedy="Use 'states' or 'embeddings'"
        )
    only = run.stacks.only
    if only is None or len(only.stack.streams) > 1:
        raise OptionError(
            "at='embeddings' needs a model with one stream of text, and not every stream of"
            f" {run.name} has word embeddings",
            argument="at",
            remedy="Use at='states'",
        )
    table = embeddings_of(run.module)
    if table is None:
        raise OptionError(
            f"at='embeddings' needs a model with word embeddings, and {run.name} has none that"
            " get_input_embeddings() returns",
            argument="at",
            remedy="Use at='states'",
        )
    return table, "after", lambda module, args, output: _change_first_tensor(output, enter)


def _copies_among(values: tuple, states: Tensor) -> list[Tensor]:
    """The tensors with the same entries as the states: models pass a copy on to later blocks."""
    others = [v for v in values if isinstance(v, Tensor) and v is not states]
    return [
        other
        for other in others
        if other.shape == states.shape
        and other.dtype == states.dtype
        and other.data_ptr() != states.data_ptr()
        and torch.equal(other, states)
    ]


def _write(copy: Tensor, states: Tensor) -> None:
    """Make a copy of the states depend on them: the model made it before they were tracked."""
    with torch._C.DisableTorchFunction():
        copy.copy_(states)
    tags.mark_written(copy)


def first_floating(args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    """Return the first floating tensor that a block is called with."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
    return None


def _change_first_tensor(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A module's output with its first tensor changed."""
    if isinstance(output, Tensor):
        return change(output)
    if isinstance(output, (tuple, list)):
        return type(output)([change(output[0]), *output[1:]])
    first = next(key for key, value in output.items() if isinstance(value, Tensor))
    output[first] = change(output[first])
    return output


def _without_gradients(run: Run) -> ModelError:
    """The error for blocks that no gradient passes."""
    return ModelError(
        f"token states enter the first block of {run.name} with gradients off (torch.no_grad in its"
        " own code), so no relevance can come back to them",
        argument="model",
        remedy="Run that part with gradients on for explanations: many models have a setting for"
        " it in their configuration",
    )


def _check_states(tensor: Tensor, run: Run) -> None:
    """Raise ModelError unless the tensor is (batch, tokens, hidden) in the model's order."""
    axis = 0 if run.stacks.batch_first else 1
    if run.stacks.axes.fits(tensor, run.batch.size):
        return
    order = "(batch, tokens, hidden)" if axis == 0 else "(tokens, batch, hidden)"
    raise ModelError(
        f"expected token states of shape {order} with batch {run.batch.size} to enter the first"
        f" block, got {tuple(tensor.shape)}",
        argument="blocks",
        remedy=f"If samples are on axis {1 - axis}, pass batch_first={axis == 1}. If these are"
        " not the blocks, name them: blocks='path.to.blocks'",
    )
