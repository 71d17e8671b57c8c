"""The forward pass: run under rules, watched where token states enter and leave the blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.blocks import named
from whyformer.engine.interception import HIDDEN, Interception
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.names import Function
from whyformer.engine.scope import add_hooks
from whyformer.engine.stacks import Stacks, Track
from whyformer.errors import ModelError, OptionError
from whyformer.models.families import Pair

Table = Mapping[Function, Any]
Hook = tuple[nn.Module, str, Any]


@dataclass
class Watch:
    """Where a pass is tracked from, what is put in place of its states, and what it saw.

    By stack, where there is one of each per stack.
    """

    at: str = "states"  # or "embeddings"
    track: bool = True  # from the states on; otherwise from the last block's output on
    replace: Mapping[str, Tensor] = field(default_factory=dict)  # states to run with instead
    leaf: str | None = None  # an argument to track from as well (an image's pixels)
    states: dict[str, Tensor] = field(default_factory=dict)  # the token states
    left: dict[str, Tensor] = field(default_factory=dict)  # what the head reads
    entering: list[Tensor] = field(default_factory=list)  # what each block was given
    leaving: list[Tensor] = field(default_factory=list)  # what each block returned
    asking: list[tuple[Pair, bool]] = field(default_factory=list)  # innermost last
    arguments: dict[str, Any] = field(default_factory=dict)
    spoken: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # (output, as it was read)


def run_forward(
    module: nn.Module,
    arguments: Mapping[str, Any],
    stacks: Stacks,
    batch: int,
    watch: Watch,
    interception: Interception,
    read: Callable[[Any], Any],
    read_inside: bool = True,
    speaks: str = "",
) -> Any:
    """What `read` makes of the model's output; `watch` holds what was seen on the way.

    `read` runs under the rules too, unless told otherwise: a target may be an operation on the
    output like any other. `speaks` is the part whose output counts, if not the model's.
    """
    # Detached: what the caller passed must not become the leaf it is tracked from.
    watch.arguments = {
        key: _own(value) if isinstance(value, Tensor) else value for key, value in arguments.items()
    }
    if watch.leaf is not None:
        tags.add_tag(watch.arguments[watch.leaf].requires_grad_(), tags.PIXELS)
    heard: list[Any] = []
    hooks = _hooks(module, stacks, batch, watch, interception)
    speaker = named(module, speaks) if speaks else None
    if speaker is not None:
        hooks.append((speaker, "after", lambda m, inputs, output: heard.append(output)))
    with add_hooks(hooks):
        with interception:
            output = _call(module, watch.arguments)
            output = heard[-1] if heard else output
            _check_seen(module, stacks, watch)
            if read_inside:
                return read(output)
        output = _spoken(output, watch.spoken)
        for tensor, _ in watch.spoken:
            interception.constant(tensor)  # refuses what was written into
        return read(output)


def _check_seen(module: nn.Module, stacks: Stacks, watch: Watch) -> None:
    for name, track in stacks.tracks.items():
        if name in watch.states or track.stack.hidden:
            continue
        where = "its blocks" if stacks.only else f"the blocks of its stream '{name}'"
        raise ModelError(
            f"{type(module).__name__} ran without going through {where}: name the"
            " module that token states go through by blocks='path.to.blocks'"
        )


def _spoken(output: Any, seen: list[tuple[Tensor, Tensor]]) -> Any:
    """The output with an alias for each of its tensors, and the pairs of them in `seen`.

    What is read off an alias is read off that tensor itself, not off one it was made from.
    """
    if isinstance(output, Tensor):
        if not output.requires_grad:
            return output
        seen.append((output, output.view_as(output)))
        return seen[-1][1]
    if isinstance(output, Mapping):
        read = {key: _spoken(value, seen) for key, value in output.items()}
        return type(output)(**read)
    if type(output) in (tuple, list):
        return type(output)(_spoken(value, seen) for value in output)
    return output


def is_double(module: nn.Module) -> bool:
    """Whether the model computes in float64."""
    floating = (p for p in module.parameters() if p.is_floating_point())
    return next(floating, torch.empty(0)).dtype == torch.float64


def _own(tensor: Tensor) -> Tensor:
    """A tensor of ours with the same numbers; inference mode's own cannot be tracked."""
    return tensor.detach().clone() if tensor.is_inference() else tensor.detach()


def _call(module: nn.Module, arguments: Mapping[str, Any]) -> Any:
    """The model's output; checkpoints that would re-compute it out of sight are refused."""
    try:
        with torch.autograd.graph.disable_saved_tensors_hooks(HIDDEN):
            return module(**arguments)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        name = type(module).__name__
        if str(error) == HIDDEN:
            raise ModelError(f"{name} cannot be explained: {HIDDEN}") from error
        said = (str(error).strip().splitlines() or ["it says nothing"])[0]
        raise ModelError(
            f"{name} failed on these inputs with {type(error).__name__}: {said}. Check that"
            " model(**inputs) runs; if it does, this is a fault of whyformer."
        ) from error


def _hooks(
    module: nn.Module, stacks: Stacks, batch: int, watch: Watch, interception: Interception
) -> list[Hook]:
    hooks = [
        hook
        for track in stacks.tracks.values()
        for hook in _along(module, track, stacks, batch, watch, interception)
    ]
    for part, pairs in stacks.askers:
        hooks += _labelled(part, pairs, watch)
    return hooks


def _along(
    module: nn.Module,
    track: Track,
    stacks: Stacks,
    batch: int,
    watch: Watch,
    interception: Interception,
) -> list[Hook]:
    """The hooks that see one stack's states enter, pass its blocks, and leave."""
    name = track.name

    def enter(tensor: Tensor) -> Tensor:
        if name in watch.states:
            return tensor
        interception.ledger.inside = True
        _check_states(tensor, stacks, batch)
        leaf = tensor
        if name in watch.replace:
            leaf = watch.replace[name].to(tensor.dtype)
            leaf = leaf if stacks.batch_first else leaf.transpose(0, 1)
        watch.states[name] = leaf
        if not watch.track or leaf.requires_grad:
            return leaf
        # The tensor itself becomes the leaf, because others than the first block may read it too.
        # The block gets a copy: some write into their input.
        tags.add_tag(leaf.requires_grad_(), tags.LEAF)
        return leaf.clone()

    def leave(tensor: Tensor) -> Tensor:
        # What only other stacks read is no place to start from: they are above it.
        if track.stack.read:
            if not watch.track and not tensor.requires_grad:
                tensor = tags.add_tag(tensor.detach().requires_grad_(), tags.LEAF)
            watch.left[name] = tensor
        watch.leaving.append(tensor)
        return tensor

    def after(module: nn.Module, inputs: tuple, output: Any) -> Any:
        return _replaced(output, leave)

    def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        found = _states_of(args, kwargs)
        watch.entering.extend([] if found is None else [found])

    hooks: list[Hook] = []
    if track.chain:
        hooks.append(_reading(module, track, watch.at, enter))
    for block in dict.fromkeys(track.chain):
        hooks.append((block, "before", before))
        if block is not track.exit:
            hooks.append((block, "after", _seen(watch)))
    hooks.append((track.exit, "after", after))
    return hooks


def _labelled(part: nn.Module, pairs: tuple[Pair, ...], watch: Watch) -> list[Hook]:
    """The hooks that say whose tokens the attention inside a module mixes."""
    calls = 0

    def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        nonlocal calls
        turn = calls % len(pairs)
        watch.asking.append((pairs[turn], turn > 0))
        calls += 1

    def after(module: nn.Module, inputs: tuple, output: Any) -> None:
        watch.asking.pop()

    return [(part, "before", before), (part, "after", after)]


def _seen(watch: Watch) -> Any:
    def note(tensor: Tensor) -> Tensor:
        watch.leaving.append(tensor)
        return tensor

    def after(module: nn.Module, inputs: tuple, output: Any) -> None:
        _replaced(output, note)

    return after


def _reading(module: nn.Module, track: Track, at: str, enter: Callable[[Tensor], Tensor]) -> Hook:
    """The hook that sees the token states where relevance is read."""
    if at == "states":

        def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
            found = _states_of(args, kwargs)
            if found is None:
                return None
            new = enter(found)
            return tuple(new if a is found else a for a in args), {
                key: new if value is found else value for key, value in kwargs.items()
            }

        return track.chain[0], "before", before
    if at == "embeddings":
        find = getattr(module, "get_input_embeddings", None)
        if find is None:
            raise OptionError(
                f"at='embeddings' needs a model with get_input_embeddings();"
                f" {type(module).__name__} has none: use at='states'"
            )
        return find(), "after", lambda m, inputs, output: _replaced(output, enter)
    raise OptionError(f"at={at!r}: choose 'states' or 'embeddings'")


def _states_of(args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    """The first floating tensor that a block is called with."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
    return None


def _replaced(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A module's output with its first tensor changed."""
    if isinstance(output, Tensor):
        return change(output)
    if isinstance(output, (tuple, list)):
        return type(output)([change(output[0]), *output[1:]])
    first = next(key for key, value in output.items() if isinstance(value, Tensor))
    output[first] = change(output[first])
    return output


def _check_states(tensor: Tensor, stacks: Stacks, batch: int) -> None:
    axis = 0 if stacks.batch_first else 1
    if tensor.dim() == 3 and tensor.shape[axis] == batch:
        return
    order = "(batch, tokens, hidden)" if stacks.batch_first else "(tokens, batch, hidden)"
    raise ModelError(
        f"expected token states of shape {order} with batch {batch} to enter the first block, got"
        f" {tuple(tensor.shape)}. If samples come {'second' if axis == 0 else 'first'}, pass"
        f" batch_first={axis == 1}; if these are not the blocks, name them by"
        " blocks='path.to.blocks'."
    )
