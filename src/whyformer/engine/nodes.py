"""Find attention heads and MLP units while a model runs, whatever its modules are called.

A head's output is that of fused attention, or of a softmax times values. Units are what enters a
linear layer after an activation in the same block: marks on tensors tell what they come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.attribution import Nodes
from whyformer.engine.block_relevance import BlockRelevance
from whyformer.engine.forward import Trace
from whyformer.engine.interception import Interception
from whyformer.engine.rules.detach import linear
from whyformer.engine.rules.ledger import Booking, Ledger, is_tracked
from whyformer.engine.rules.operations.arguments import bind, einsum_operands, two_operands
from whyformer.engine.rules.operations.names import (
    ACTIVATION,
    ADD,
    CHOOSE,
    DIVIDE,
    MATMUL,
    MULTIPLY,
    NORM,
    REARRANGE,
    SOFTMAX,
    SUBTRACT,
    Function,
    torch_functions,
)
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run
from whyformer.engine.segments import TokenLayout
from whyformer.models.families import Pair

# Norms written out by hand have powers, and clamps only guard against overflow.
_ACTIVATES = (ACTIVATION | torch_functions("relu leaky_relu")) - torch_functions(
    "pow square clamp clip clamp_min clamp_max nan_to_num hardshrink"
)
_MAP, _HEADS, _UNITS = "map", "heads", "units"  # in the order that decides for a product
_ATTRIBUTE = "_whyformer_node"

See = Callable[[Function, tuple, dict[str, Any], Any], None]


class WatchedInterception(Interception):
    """An interception that shows every operation and its result to a function."""

    def __init__(self, see: See, *settings: Any) -> None:
        """Start with a function of (operation, args, kwargs, result) and an interception's own."""
        super().__init__(*settings)
        self.see = see

    def __torch_function__(
        self, func: Function, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = super().__torch_function__(func, types, args, kwargs)
        self.see(func, args, kwargs or {}, output)
        return output


class _Node(NamedTuple):
    """A tensor whose relevance is read."""

    stack: str
    answering: str  # of heads: the stack that they attend to
    call: int  # the block call that it belongs to
    tensor: Tensor
    version: int  # of the tensor when it was recorded
    axes: tuple[int, ...] | None  # the order (..., query, feature) of a head's output, if another

    def relevance(self, gradient: Tensor) -> Tensor | None:
        """Activation x gradient, entry by entry; None if the model overwrote the activation."""
        if self.tensor._version != self.version:
            return None
        product = wide(self.tensor.detach()) * wide(gradient)
        return product if self.axes is None else product.permute(self.axes)


class NodeRecorder:
    """The heads and units that a forward pass shows, in the order they ran."""

    def __init__(self, run: Run, trace: Trace, ledger: Ledger) -> None:
        """Start to record; the trace will read the relevance of block inputs too."""
        trace.blocks = trace.blocks or BlockRelevance(run)
        self._run, self._trace, self._ledger = run, trace, ledger
        self._inside: list[str] = []  # the stack whose block runs now
        self._calls = 0  # of blocks
        self._heads: list[_Node] = []
        self._units: list[_Node] = []
        self._blocks: Counter[str] = Counter()  # calls by stack

    def hooks(self) -> list[tuple[nn.Module, str, Any]]:
        """Return hooks that tell when a block runs."""
        return [
            hook
            for name, track in self._run.stacks.tracks.items()
            for block in dict.fromkeys(track.chain)
            for hook in ((block, "before", self._enter(name)), (block, "after", self._leave))
        ]

    def _enter(self, stack: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            self._inside.append(stack)
            self._blocks[stack] += 1
            self._calls += 1

        return enter

    def _leave(self, module: nn.Module, args: tuple, output: Any) -> None:
        self._inside.pop()

    # -- the forward pass --------------------------------------------------------------------------

    def see(self, function: Function, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        """Record a head's or an MLP's activations, and mark the result by what it comes from."""
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return
        mixes_values = function in MATMUL and bool(args) and self._kind(args[0]) == _MAP
        if mixes_values or function is F.scaled_dot_product_attention:
            self._note_heads(output)
        elif function is torch.einsum:
            self._note_einsum(args, output)
        elif function in linear.TABLE:
            self._note_units(function, args, kwargs)
        else:
            kind = self._result_kind(function, args, kwargs)
            if kind is not None or hasattr(output, _ATTRIBUTE):
                self._mark(output, kind)

    def _result_kind(self, function: Function, args: tuple, kwargs: dict[str, Any]) -> str | None:
        """What an operation's result comes from, if the operation keeps or gives it a kind."""
        if function in SOFTMAX:
            return _MAP
        first = args[0] if args else kwargs.get("input")
        if function in _ACTIVATES:
            return _UNITS if self._inside else None
        if function in REARRANGE or function in NORM:
            return self._kind(first)
        if function in CHOOSE:
            return self._kind(args[1]) if len(args) > 1 else None
        if function in MULTIPLY or function in DIVIDE:
            kinds = [self._kind(factor) for factor in two_operands(args, kwargs)]
            return next((kind for kind in (_MAP, _HEADS, _UNITS) if kind in kinds), None)
        if function in ADD or function in SUBTRACT:
            parts = [part for part in two_operands(args, kwargs) if is_tracked(part)]
            return self._kind(parts[0]) if len(parts) == 1 else None  # not a residual sum
        return None

    def _kind(self, value: Any) -> str | None:
        """What a tensor comes from, if that ran in the same block."""
        kind, call = getattr(value, _ATTRIBUTE, (None, 0))
        return kind if call == self._calls else None

    def _mark(self, tensor: Tensor, kind: str | None) -> None:
        setattr(tensor, _ATTRIBUTE, (kind, self._calls))

    def _note_heads(self, output: Tensor, axes: tuple[int, ...] | None = None) -> None:
        self._mark(output, _HEADS)
        asking, answering = self._current_pair()
        if is_tracked(output) and asking in self._trace.states:
            self._ledger.check_order(output)
            node = _Node(asking, answering, self._calls, output, output._version, axes)
            self._heads.append(node)

    def _current_pair(self) -> Pair:
        """Whose tokens the attention that runs now mixes; "" outside of blocks."""
        if self._trace.pairs:
            return self._trace.pairs[-1][0]
        stack = self._inside[-1] if self._inside else ""
        return stack, stack

    def _note_einsum(self, args: tuple, output: Tensor) -> None:
        equation, operands = einsum_operands(args)
        terms, arrow, result = equation.replace(" ", "").partition("->")
        for term, operand in zip(terms.split(","), operands, strict=False):
            features = [axis for axis in result if axis not in term]
            plain = arrow and "." not in equation and len(features) == 1 and term[-2] in result
            if self._kind(operand) == _MAP and plain:
                last = [term[-2], *features]
                order = [axis for axis in result if axis not in last] + last
                self._note_heads(output, tuple(result.index(axis) for axis in order))

    def _note_units(self, function: Function, args: tuple, kwargs: dict[str, Any]) -> None:
        bias_first = linear.TABLE[function] is linear.addmm
        names = "bias input" if bias_first else "input"
        x = bind(names, args, kwargs)[-1]
        if self._inside and is_tracked(x) and self._kind(x) == _UNITS:
            self._units.append(_Node(self._inside[-1], "", self._calls, x, x._version, None))

    # -- after the backward pass -------------------------------------------------------------------

    @property
    def places(self) -> dict[str, list[Tensor]]:
        """The tensors whose gradients `read` takes."""
        return {
            _HEADS: [node.tensor for node in self._heads],
            _UNITS: [node.tensor for node in self._units],
        }

    def read(
        self,
        layout: TokenLayout,
        slopes: Mapping[str, Sequence[Tensor]],
    ) -> dict[str, Nodes]:
        """Return the nodes of every stack from the gradients at `places` and at the "states"."""
        assert self._trace.blocks is not None
        blocks = self._trace.blocks.read(self._trace.states, slopes["states"])
        heads = [(n, n.relevance(g)) for n, g in zip(self._heads, slopes[_HEADS], strict=True)]
        units = [(n, n.relevance(g)) for n, g in zip(self._units, slopes[_UNITS], strict=True)]
        return {
            stack: Nodes(
                states=_stack([None if one is None else one * mask for one in blocks[stack]]),
                heads=_stack([self._by_head(r, mask) for n, r in heads if n.stack == stack]),
                units=self._stack_units([(n, r) for n, r in units if n.stack == stack], mask),
                sinks=self._sinks_above(len(blocks[stack])),
                answering=tuple(n.answering for n, _ in heads if n.stack == stack),
            )
            for stack, mask in layout.masks.items()
            if stack in blocks
        }

    def _by_head(self, relevance: Tensor | None, mask: Tensor) -> Tensor | None:
        """Relevance of heads, (batch, head, token); None if these are not the stack's tokens."""
        if relevance is None or relevance.shape[-2] != mask.shape[1]:
            return None
        summed = relevance.sum(-1)
        return summed.reshape(len(mask), -1, mask.shape[1]) * mask.unsqueeze(1)

    def _stack_units(
        self, found: Sequence[tuple[_Node, Tensor | None]], mask: Tensor
    ) -> Tensor | None:
        """Relevance of units, (batch, layer, unit), if every block has equally many MLPs."""
        if not found:
            return None
        per_block = Counter(node.call for node, _ in found)
        if len(per_block) != self._blocks[found[0][0].stack] or len({*per_block.values()}) > 1:
            return None
        return _stack([self._by_unit(relevance, mask) for _, relevance in found])

    def _by_unit(self, relevance: Tensor | None, mask: Tensor) -> Tensor | None:
        """Relevance of units, summed over real tokens, (batch, unit)."""
        if relevance is None or relevance[..., 0].numel() != mask.numel():
            return None
        if self._run.stacks.batch_first:
            tokens = relevance.reshape(*mask.shape, -1)
        else:
            tokens = relevance.reshape(mask.shape[1], mask.shape[0], -1).transpose(0, 1)
        return (tokens * mask.unsqueeze(2)).sum(1)

    def _sinks_above(self, layers: int) -> Tensor | None:
        """Relevance that constants took above each block's input, (batch, layer)."""
        # Below the blocks, where word embeddings are, no place is known.
        if not self._run.stacks.only or not self._ledger.active or self._trace.at != "states":
            return None
        each: dict[Booking, Tensor] = dict(self._ledger.sinks_by_place)
        for booking, amount in self._ledger.token_sinks.items():
            each[booking] = each.get(booking, 0) + amount.sum(1)
        some = next(iter(self._trace.states.values()))
        none = torch.zeros(self._run.batch.size, dtype=wide(some).dtype, device=some.device)
        above = [
            sum((v for (_, place), v in each.items() if place is None or place.block >= i), none)
            for i in range(layers)
        ]
        return torch.stack(above, 1)


def _stack(layers: Sequence[Tensor | None]) -> Tensor | None:
    """The layers as (batch, layer, ...); None if one is missing or they differ in shape."""
    known = [layer for layer in layers if layer is not None]
    if not known or len(known) < len(layers) or len({layer.shape for layer in known}) > 1:
        return None
    return torch.stack(known, 1)
