"""Activation checkpointing under rules: the graph of one block at a time.

On the way up each block runs under the rules, and its graph is dropped: only the tensors that enter
and leave it stay. On the way down it runs again under the same rules, and the gradient goes through
the new graph at once. What the ledger books there is what it would have booked without checkpoints.

Attention maps inside a block are dropped too. In the graph outside a stand-in takes the place of
each. At the stand-in arrives what the pass reads of the map in the second run: its gradient, or
what the method makes of the map and its gradient.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import Function as AutogradFunction

from whyformer.engine.failures import first_line
from whyformer.engine.graph_walk import leaves_below
from whyformer.engine.interception import Interception
from whyformer.engine.rules.ledger import Ledger, Place, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.fused_attention import FusedCall
from whyformer.engine.run import Run
from whyformer.engine.stacks import Stacks
from whyformer.errors import ModelError, WhyformerError
from whyformer.models.undo import Change

Scope = Callable[[], AbstractContextManager[Any]]
# Leaves that a pass made; what is computed from them has no such tag.
_LEAVES = (tags.LEAF, tags.PIXELS)
# Where a block's output may hold tensors.
_CONTAINERS = (tuple, list, Mapping)


class RecordedMap(NamedTuple):
    """An attention map; if attention stays fused, its output and its arguments."""

    map: Tensor
    call: FusedCall | None


class InnerMaps(Protocol):
    """The attention maps that a pass records, also inside of blocks that run again.

    Attributes:
        places: Where what is read of each map arrives, in the order they ran.
    """

    places: list[Tensor]

    @property
    def count(self) -> int:
        """How many maps were recorded so far."""

    def drop(self, first: int) -> tuple[list[Tensor], list[Tensor]]:
        """Drop the maps from a number on; return them, and the stand-ins in their places."""

    def run_again(self) -> AbstractContextManager[list[RecordedMap]]:
        """A scope in which a block runs again: its maps are added to the list."""

    def arriving(
        self, first: int, maps: Sequence[RecordedMap], gradients: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return what arrives at the stand-ins of a block whose maps are numbered from `first`."""


class NoMaps:
    """For passes that record no attention maps."""

    count = 0

    def __init__(self) -> None:
        self.places: list[Tensor] = []

    def drop(self, first: int) -> tuple[list[Tensor], list[Tensor]]:
        """Nothing."""
        return [], []

    def run_again(self) -> AbstractContextManager[list[RecordedMap]]:
        """An empty list."""
        return nullcontext([])

    def arriving(
        self, first: int, maps: Sequence[RecordedMap], gradients: Sequence[Tensor]
    ) -> list[Tensor]:
        """Nothing."""
        return []


@contextmanager
def checkpoint_blocks(
    run: Run, interception: Interception, under_rules: Scope, maps: InnerMaps
) -> Iterator[None]:
    """A scope in which every block of the model runs as a checkpoint, in this thread only.

    Args:
        run: The model on a batch.
        interception: The mode that the model runs under.
        under_rules: Opens the scope in which a block has to run again.
        maps: Records the attention maps inside the blocks.
    """
    _check_apart(run)
    names = {part: name for name, part in run.module.named_modules()}
    blocks = dict.fromkeys(block for track in run.stacks.tracks.values() for block in track.chain)
    with ExitStack() as scopes:
        for block in blocks:
            name = f"block {names[block]!r} of {run.name}"
            original = block.forward
            checkpointed = _checkpointed(original, name, interception, under_rules, maps)
            scopes.enter_context(_replaced_forward(block, checkpointed))
        yield


def check_no_graph_escaped(run: Run, output: Any, own: Sequence[Tensor]) -> None:
    """Raise ModelError if the output depends on a tensor inside a block that it did not return.

    The graph of such a tensor ends at the block's input. `own` are the leaves of the pass.
    """
    known = {id(leaf) for leaf in own}
    if any(id(leaf) not in known for leaf in leaves_below(_tracked(output, _CONTAINERS))):
        raise checkpoint_error(
            f"{run.name} reads tensors from inside its blocks that they do not return"
        )


@dataclass
class _BlockCall:
    """One call of a block: enough to run it again.

    Attributes:
        forward: The block's own forward.
        name: The block, for messages.
        arguments: Its args and (name, value) pairs, with a slot for each tracked tensor.
        kinds: The tag of each tracked tensor.
        ledger: Where relevance is booked.
        place: The place of what is booked inside.
        under_rules: Opens the scope in which the block has to run again.
        maps: Records the attention maps inside.
        first_map: The number of the block's first map.
        outputs: The values of its tracked outputs, and their versions.
    """

    forward: Callable[..., Any]
    name: str
    arguments: Any
    kinds: list[str | None]
    ledger: Ledger
    place: Place | None
    under_rules: Scope
    maps: InnerMaps
    first_map: int
    outputs: list[tuple[Tensor, int]] = field(default_factory=list)

    def run(self, inputs: Sequence[Tensor]) -> tuple[Any, list[Tensor], list[Tensor]]:
        """Return the block's output, its graph's leaves, and the tensors that entered it."""
        with torch._C.DisableTorchFunction():
            leaves = [tags.add_tag(one.detach().requires_grad_(), tags.LEAF) for one in inputs]
            # Copies: the block may write into what enters it.
            entering = [
                _known(leaf.clone(), kind) for leaf, kind in zip(leaves, self.kinds, strict=True)
            ]
            args, named = _change(
                _change(self.arguments, deepcopy, _is_cache),
                lambda one: entering[one.number],
                lambda one: type(one) is _Slot,
            )
        return self.forward(*args, **dict(named)), leaves, entering

    def gradients(
        self, inputs: Sequence[Tensor], arriving: Sequence[Tensor | None]
    ) -> Sequence[Tensor]:
        """Return the gradient at the inputs and what arrives at the stand-ins of the maps.

        The graph exists only meanwhile.
        """
        before, self.ledger.place = self.ledger.place, self.place
        try:
            with torch.enable_grad(), self.under_rules(), self.maps.run_again() as maps:
                output, leaves, _ = self.run(inputs)
        except WhyformerError:
            raise
        except Exception as error:
            raise checkpoint_error(
                f"{self.name} fails when it runs again, with {first_line(error)}"
            ) from error
        finally:
            self.ledger.place = before
        outputs = _tracked(output, _CONTAINERS)
        del output
        self.check_same(outputs)
        reached = [
            (one, gradient)
            for one, gradient in zip(outputs, arriving, strict=True)
            if gradient is not None
        ]
        del outputs
        places = [*leaves, *(one.map for one in maps)]
        if not reached:
            found = [torch.zeros_like(place) for place in places]
        else:
            ends, starts = zip(*reached, strict=True)
            # Zeros, not None: hooks outside the block expect a gradient.
            found = [
                *torch.autograd.grad(
                    ends, places, starts, allow_unused=True, materialize_grads=True
                )
            ]
            del ends, starts
        del reached, arriving
        count = len(leaves)
        return [*found[:count], *self.maps.arriving(self.first_map, maps, found[count:])]

    def check_same(self, found: Sequence[Tensor]) -> None:
        """Raise ModelError if the block returned something else than the first time."""
        same = len(found) == len(self.outputs) and all(
            value._version != version or _is_same(new.detach(), value)
            for new, (value, version) in zip(found, self.outputs, strict=True)
        )
        if not same:
            raise checkpoint_error(
                f"{self.name} returns something else when it runs again: it draws random numbers,"
                " or it changes what it reads (a cache)"
            )


@dataclass(frozen=True)
class _Slot:
    """Stands for a tracked tensor among the arguments of a block."""

    number: int


class _Recomputed(AutogradFunction):
    """Hands on what a block returned; its backward runs the block again."""

    @staticmethod
    def forward(
        ctx: Any, call: _BlockCall, values: list[Tensor], count: int, *places: Tensor
    ) -> Any:
        """Return the values; `places` are the block's inputs, `count` of them, then stand-ins."""
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*places[:count])
        return tuple(values)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor | None) -> Any:
        return (None, None, None, *ctx.call.gradients(ctx.saved_tensors, arriving))


def _checkpointed(
    original: Callable[..., Any],
    name: str,
    interception: Interception,
    under_rules: Scope,
    maps: InnerMaps,
) -> Callable[..., Any]:
    """The forward of a block that drops its graph and builds it again in the backward pass."""
    owner, ledger = threading.get_ident(), interception.ledger

    def forward(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != owner or not torch.is_grad_enabled():
            return original(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            # What is no token state becomes a constant, as for every operation. Lists and
            # mappings are left alone: the block may write into them.
            given = _change((args, tuple(kwargs.items())), interception.constant, is_tracked)
        inputs = _tracked(given)
        if not inputs:
            return original(*args, **kwargs)
        slots = {id(one): _Slot(number) for number, one in enumerate(inputs)}
        arguments = _change(given, lambda one: slots[id(one)], is_tracked)
        kinds = [tags.tag_of(one) for one in inputs]
        call = _BlockCall(
            original, name, arguments, kinds, ledger, ledger.place, under_rules, maps, maps.count
        )
        output, leaves, entering = call.run(inputs)
        tracked = _tracked(output, _CONTAINERS)
        if not tracked:
            return output
        with torch._C.DisableTorchFunction():
            inner, stand_ins = maps.drop(call.first_map)
        used = _check_alone(name, tracked, [*leaves, *inner], entering)
        del inner
        with torch._C.DisableTorchFunction():
            # Copies: an output may be a view of something inside the block.
            values = [one.detach().clone() for one in tracked]
            call.outputs = [(value.detach(), value._version) for value in values]
            # No gradient goes to inputs that only decide constants, such as attention weights.
            inputs = [
                one if id(leaf) in used else one.detach()
                for one, leaf in zip(inputs, leaves, strict=True)
            ]
            attach: Callable[..., tuple[Tensor, ...]] = _Recomputed.apply
            attached = attach(call, values, len(inputs), *inputs, *stand_ins)
            if len(attached) > 1:
                # Each gets its own node: else hooks on one run when a gradient reaches another.
                attached = tuple(one.view_as(one) for one in attached)
            for old, new in zip(tracked, attached, strict=True):
                _known(new, tags.tag_of(old))
        outside = {id(old): new for old, new in zip(tracked, attached, strict=True)}
        return _change(output, lambda one: outside[id(one)], is_tracked, _CONTAINERS)

    return forward


@contextmanager
def _replaced_forward(block: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """A scope in which a block has another forward; hooks on the block run outside of it."""
    own = vars(block).get("forward")

    def restore() -> None:
        if own is None:
            vars(block).pop("forward", None)
        else:
            vars(block)["forward"] = own

    with Change(restore):
        vars(block)["forward"] = forward
        yield


def _check_apart(run: Run) -> None:
    """Raise ModelError if token states are read inside a block: no graph stays there."""
    inside = _inside(run.stacks)
    for track in run.stacks.tracks.values():
        for part in (*track.chain, track.exit):
            if part in inside:
                raise checkpoint_error(
                    f"the token states of '{track.name}' are read inside a block of {run.name}"
                )


def _inside(stacks: Stacks) -> set[nn.Module]:
    """The modules inside of blocks, without the blocks themselves."""
    return {
        part
        for track in stacks.tracks.values()
        for block in track.chain
        for part in block.modules()
        if part is not block
    }


def _check_alone(
    name: str, outputs: Sequence[Tensor], leaves: Sequence[Tensor], entering: Sequence[Tensor]
) -> set[int]:
    """Return the ids of the leaves that the outputs depend on.

    Raise ModelError if the block reads or writes token states beside its arguments.
    """
    used = {id(leaf) for leaf in leaves_below(outputs)}
    if used - {id(leaf) for leaf in leaves}:
        raise checkpoint_error(
            f"{name} reads token states that are not among its arguments, such as keys and values"
            " that another block left in a cache"
        )
    if any(one._version for one in entering):
        raise checkpoint_error(f"{name} writes into the token states that enter it")
    return used


def _is_cache(value: Any) -> bool:
    """Whether this is a cache of keys and values: a block that runs again would add them twice."""
    return any(kind.__module__ == "transformers.cache_utils" for kind in type(value).__mro__)


def checkpoint_error(reason: str) -> ModelError:
    """Return the error for a model or a target that checkpoints do not fit."""
    return ModelError(
        f"memory='checkpoint' cannot be used: {reason}",
        argument="memory",
        remedy="Leave out memory=",
    )


def _known(tensor: Tensor, kind: str | None) -> Tensor:
    """The tensor, known to the interception, with the tag of what it stands for."""
    tags.mark_seen(tensor)
    return tensor if kind is None or kind in _LEAVES else tags.add_tag(tensor, kind)


def _tracked(value: Any, containers: tuple[type, ...] = (tuple,)) -> list[Tensor]:
    """The tracked tensors in a value or its containers, once each."""
    found: dict[int, Tensor] = {}

    def note(one: Tensor) -> Tensor:
        return found.setdefault(id(one), one)

    _change(value, note, is_tracked, containers)
    return [*found.values()]


def _change(
    value: Any,
    change: Callable[[Any], Any],
    chosen: Callable[[Any], bool],
    containers: tuple[type, ...] = (tuple,),
) -> Any:
    """The value with its chosen entries changed; containers without any stay the same objects."""
    if chosen(value):
        return change(value)
    if not issubclass(type(value), containers):
        return value
    old = [*value.values()] if isinstance(value, Mapping) else [*value]
    new = [_change(one, change, chosen, containers) for one in old]
    if all(one is other for one, other in zip(old, new, strict=True)):
        return value
    if isinstance(value, Mapping):
        entries = dict(zip(value, new, strict=True))
        return entries if type(value) is dict else type(value)(**entries)
    return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)


def _is_same(found: Tensor, expected: Tensor) -> bool:
    """Whether two tensors agree up to the order of sums."""
    if found.shape != expected.shape or torch.equal(found, expected):
        return found.shape == expected.shape
    largest = float(expected.abs().nan_to_num(0, 0, 0).max())
    tolerance = torch.finfo(expected.dtype).eps ** 0.5 * largest
    return torch.allclose(found, expected, rtol=0, atol=tolerance, equal_nan=True)
