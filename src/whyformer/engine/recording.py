"""What passes record: attention maps (forward) and sums of relevance (backward)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from whyformer.attribution import Layer
from whyformer.engine.checkpointing import RecordedMap
from whyformer.engine.forward import Trace
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.fused_attention import (
    FusedCall,
    detached_call,
    four_axes,
    wide_call,
)
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.stacks import Stacks
from whyformer.engine.streamed_layers import Mix, StreamedLayer, holds_samples, split_heads
from whyformer.errors import ModelError, OptionError, UnsuitableMethodError
from whyformer.models.families import Pair

# A map with more entries than this is not held; its rows are computed again when needed.
LARGEST_HELD = 2**20

Layers = tuple[tuple[int, ...], ...]  # the numbers of the maps of each layer


class AttentionRecorder:
    """Attention maps as the model shaped them, in the order they ran, and whose tokens they mix.

    Where fused attention stays fused, `maps` has the attention's output in place of its map, and
    `calls` has its arguments. `places` are the tensors of the graph at which gradients are read:
    the maps, or what stands for them while their block is dropped (see `checkpointing.py`).
    """

    def __init__(
        self,
        trace: Trace,
        ledger: Ledger,
        stacks: Stacks,
        *,
        start_graph: bool,
        memory: str | None = None,
        ordered: Sequence[bool] = (),
        mix: Mix | None = None,
    ) -> None:
        """Start without maps.

        Args:
            trace: What the hooks saw.
            ledger: Knows how samples are laid out.
            stacks: The model's stacks.
            start_graph: Whether the lowest maps are where the graph begins.
            memory: "maps", "streamed", or None to choose by the size of the maps.
            ordered: Whether each map is known to have samples before heads, in the order they run.
            mix: What the method makes of a layer, if maps that are dropped need not be kept.
        """
        self.maps: list[Tensor] = []
        self.places: list[Tensor] = []
        self.calls: list[FusedCall | None] = []
        self.pairs: list[tuple[Pair, bool]] = []  # whose tokens; whether together with the last
        self.dropped: set[int] = set()  # maps that are not held, until their block runs again
        self.mixed: set[int] = set()  # maps that only their mixing is kept of
        self._mix = mix
        self._again: list[RecordedMap] | None = None
        self._trace = trace
        self._ledger = ledger
        self._stacks = stacks
        self._start_graph = start_graph
        self._ordered = ordered
        self._largest = {"maps": math.inf, "streamed": 0, None: LARGEST_HELD}[memory]

    @property
    def count(self) -> int:
        """How many maps were recorded so far."""
        return len(self.maps)

    def drop(self, first: int) -> tuple[list[Tensor], list[Tensor]]:
        """Drop the maps from a number on; return them, and the stand-ins in their places."""
        dropped = self.maps[first:]
        for number in range(first, self.count):
            found, shape = RecordedMap(self.maps[number], self.calls[number]), None
            if self._mix is not None:
                shape = _mixing_shape(found, self._ledger.batch)
            if shape is not None:
                self.mixed.add(number)
            # One number in memory, seen as a tensor of the shape of what arrives.
            one = found.map.detach().new_zeros(())
            one = (one if shape is None else wide(one)).expand(shape or found.map.shape)
            stand_in = tags.add_tag(one.requires_grad_(), tags.LEAF)
            self.maps[number] = self.places[number] = stand_in
            self.calls[number] = None
            self.dropped.add(number)
        return dropped, self.places[first:]

    @contextmanager
    def run_again(self) -> Iterator[list[RecordedMap]]:
        """A scope in which a block runs again: its maps are added to the list."""
        maps: list[RecordedMap] = []
        before, self._again = self._again, maps
        try:
            yield maps
        finally:
            self._again = before

    def arriving(
        self, first: int, maps: Sequence[RecordedMap], gradients: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return what arrives at the stand-ins of a block whose maps are numbered from `first`.

        That is the mixing of a map, or its gradient; then the map itself is kept.
        """
        found = []
        for number, (one, gradient) in enumerate(zip(maps, gradients, strict=True), first):
            if number in self.mixed:
                assert self._mix is not None
                found.append(self._mix(_one_layer(one, gradient, self._ledger.batch)))
                continue
            self.dropped.discard(number)
            self.maps[number] = one.map.detach()
            self.calls[number] = None if one.call is None else detached_call(one.call)
            found.append(gradient)
        return found

    def record(self, attention: Tensor) -> Tensor:
        """Record a map, and return the tensor that the model uses in its place."""
        if is_below(self._trace, self._stacks):
            return attention
        self._check_order(attention)
        return self._note(attention, None)

    def hold(self, call: FusedCall, run: Callable[[FusedCall], Tensor]) -> Tensor | None:
        """Run fused attention and record its call; return None if the map is small enough to hold.

        The output is (..., query, feature), as fused attention returns it.
        """
        if is_below(self._trace, self._stacks):
            return run(call)
        entries = call.query[..., 0].numel() * call.key.shape[-2]
        if entries <= self._largest or is_tracked(call.attn_mask):
            return None
        self._check_order(call.query)
        plain = four_axes(call._replace(dropout_p=0.0))
        output = self._note(run(plain), plain)
        return output.reshape(*call.query.shape[:-1], output.shape[-1])

    def _check_order(self, tensor: Tensor) -> None:
        if self._again is not None:
            return
        number = len(self.maps)
        if number >= len(self._ordered) or not self._ordered[number]:
            self._ledger.check_order(tensor)

    def _note(self, attention: Tensor, call: FusedCall | None) -> Tensor:
        if self._start_graph and not attention.requires_grad:
            attention = tags.add_tag(attention.detach().requires_grad_(), tags.LEAF)
        if self._again is not None:
            self._again.append(RecordedMap(attention, call))
            return attention
        self.pairs.append(current_pair(self._trace, self._stacks))
        self.places.append(attention)
        self.maps.append(attention)
        self.calls.append(call)
        return attention

    def layers(self, groups: Layers | None) -> Layers:
        """Return the numbers of the maps of each layer; without `groups`, each map is a layer."""
        return groups or tuple((i,) for i in range(len(self.maps)))

    def choose_layers(
        self,
        groups: Layers | None,
        first: int = 0,
        end: int | None = None,
        by_pair: bool = False,
    ) -> list[int]:
        """Return the numbers of the layers `first` to `end`, counted per stack.

        `groups` has the maps of each layer, as in `layers`. Layers are counted per query stack, or
        per pair of stacks if `by_pair`. Negative numbers count from the top. Hidden stacks
        (poolers) always take part.
        """
        layers: dict[Any, list[int]] = {}
        for number, group in enumerate(self.layers(groups)):
            pair = self.pairs[group[0]][0]
            layers.setdefault(pair if by_pair else pair[0], []).append(number)
        if not layers:
            raise missing_operation("attention")
        most = max(map(len, layers.values()))
        if not -most <= first < most:
            raise OptionError(
                f"start_layer={first}, but the model has {most} attention layers",
                argument="start_layer",
                remedy=f"Pass a number from {-most} to {most - 1}",
            )
        hidden = {name for name, track in self._stacks.tracks.items() if track.stack.hidden}
        kept = sorted(
            i for stack, own in layers.items() for i in (own if stack in hidden else own[first:end])
        )
        if not kept or (end is not None and abs(end) > most):
            raise OptionError(
                f"start_layer={first} and end_layer={end} leave none of the {most} layers",
                argument="end_layer",
                remedy=f"end_layer is exclusive: pass a number from {first % most + 1} to {most}",
            )
        return kept


def _mixing_shape(found: RecordedMap, batch: int) -> tuple[int, ...] | None:
    """The shape of a map's mixing; None if its samples cannot be told apart, or it is too large.

    The mixing of many tokens is larger than the queries, keys and values of all heads, the output
    and its gradient.
    """
    if found.call is None:
        return (batch, *found.map.shape[-2:]) if holds_samples(found.map, batch) else None
    if found.map.shape[:-2].numel() % batch:
        return None
    shape = (batch, found.map.shape[-2], found.call.key.shape[-2])
    factors = (found.call.query, found.call.key, found.call.value, found.map, found.map)
    return shape if math.prod(shape) <= sum(one.numel() for one in factors) else None


def _one_layer(found: RecordedMap, gradient: Tensor, batch: int) -> Layer | StreamedLayer:
    """A map and its gradient as a layer, without its stacks."""
    output, slope = wide(found.map.detach()), wide(gradient)
    if found.call is not None:
        return StreamedLayer(batch, wide_call(found.call), output, output_gradient=slope)
    return Layer(split_heads(output, batch), split_heads(slope, batch))


def is_below(trace: Trace, stacks: Stacks) -> bool:
    """Return whether the attention that runs now computes tokens that the blocks read later."""
    return stacks.merged and not trace.states


def current_pair(trace: Trace, stacks: Stacks) -> tuple[Pair, bool]:
    """Return whose tokens the attention that runs now mixes, and whether together with the last."""
    if not trace.states:
        raise ModelError(
            "attention ran before the token states entered the first block, so the model has"
            " more blocks than these",
            argument="blocks",
            remedy="Name all of them: blocks='path.to.blocks'",
        )
    if trace.pairs:
        return trace.pairs[-1]
    only = stacks.only
    if only is None:
        raise ModelError(
            "an attention ran outside of every module in the family's table of attention, so"
            " whyformer cannot tell whose tokens it mixes",
            argument="model",
            remedy="Add the module's path to the family's `attention` table",
        )
    return (only.name, only.name), False


class RelevanceSums:
    """The relevance of each block's output, summed per sample during the backward pass."""

    def __init__(self, leaving: list[Tensor], ledger: Ledger, batch_first: bool) -> None:
        self._sums: dict[int, Tensor] = {}
        self._blocks = len(leaving)
        self._per_sample = partial(ledger.per_sample, batch_first=batch_first)
        for i, tensor in enumerate(leaving):
            if tensor.requires_grad:
                tensor.register_hook(partial(self._note, i))

    def _note(self, i: int, relevance: Tensor) -> None:
        self._sums.setdefault(i, self._per_sample(wide(relevance)))

    def above(self, layer: int, layers: int) -> Tensor | None:
        """Return the sum (batch,) above an attention layer, if each block has one attention."""
        return self._sums.get(layer) if layers == self._blocks else None


def missing_operation(operation: str) -> UnsuitableMethodError:
    """Return the error for a model that never runs the operation that the method reads."""
    return UnsuitableMethodError(
        f"no {operation} was seen inside the model's blocks, so this method has nothing to read",
        unavailable="attention",
        remedy="If the blocks are elsewhere, name them: blocks='path.to.blocks'",
    )
