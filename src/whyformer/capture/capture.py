"""One forward and one backward pass, and the quantities that methods read off them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.capture.blocks import Blocks
from whyformer.capture.mode import Interception
from whyformer.capture.scope import hooked
from whyformer.errors import ModelError, OptionError, TargetError
from whyformer.inputs.prepared import Prepared
from whyformer.inputs.targets import Goal
from whyformer.rules import attention as attention_rules
from whyformer.rules import marks
from whyformer.rules.ledger import Ledger
from whyformer.rules.operations import Function
from whyformer.rules.stabilise import wide

Table = Mapping[Function, Any]


@dataclass
class _Pass:
    """What one forward pass left: all of it still connected to the graph."""

    ledger: Ledger
    goal: Goal
    states: Tensor  # where relevance is read, as the model laid it out
    exit: Tensor | None  # what the last block returned
    maps: list[Tensor] = field(default_factory=list)  # attention as the model shaped it


@dataclass(frozen=True)
class Gradients:
    """Token states and the gradient there, (batch, tokens, hidden)."""

    states: Tensor
    gradient: Tensor
    ledger: Ledger

    def relevance(self) -> Tensor:
        """Gradient x input, summed over the hidden axis, (batch, tokens)."""
        return (wide(self.states) * wide(self.gradient)).sum(-1)


class Capture:
    """A model on one batch of inputs, ready to be run under a method's rules."""

    def __init__(
        self,
        module: nn.Module,
        prepared: Prepared,
        blocks: Blocks,
        resolve: Callable[[Any, Any], Goal],
        target: Any = None,
        deciding: Any = None,
        keep: Sequence[str] = (),
    ) -> None:
        self.module = module
        self.prepared = prepared
        self.blocks = blocks
        self.keep = frozenset(keep)
        self._resolve = resolve
        self._target = target
        self._deciding = deciding
        self.goal: Goal | None = None
        self.tokens = 0  # in the states, prefix tokens included
        self.deciding: Tensor | None = None  # (batch, tokens), each row adds up to 1
        self.layers: list[tuple[Tensor, Tensor | None]] = []  # (attention, gradient), bottom up
        self.map: Tensor | None = None
        self.states: Tensor | None = None
        self.ledger: Ledger | None = None

    # -- what methods ask for ---------------------------------------------------------------------

    @property
    def mask(self) -> Tensor:
        """True at real tokens, prefix tokens included, (batch, tokens)."""
        given = self.prepared.mask
        if given is not None and given.shape[1] == self.tokens:
            return given
        device = next((p.device for p in self.module.parameters()), None)
        return torch.ones(self.prepared.batch, self.tokens, dtype=torch.bool, device=device)

    @property
    def prefix(self) -> int:
        """How many tokens stand before an image's patches in the states."""
        if self.prepared.grid is None:
            return 0
        rows, columns = self.prepared.grid
        return self.tokens - rows * columns

    def gradients(
        self,
        table: Table,
        at: str = "states",
        conserve: bool = False,
        states: Tensor | None = None,
        needs: str | None = None,
    ) -> Gradients:
        """States and gradient under a table of rules; `states` replaces the model's own."""
        run = self._forward(table, at=at, conserve=conserve, states=states)
        if needs and not run.ledger.counts[needs]:
            raise ModelError(_unseen(needs))
        (gradient,) = torch.autograd.grad(self._value(run), run.states)
        here, there = self._batch_first(run.states.detach()), self._batch_first(gradient)
        self.tokens = here.shape[1]
        if states is None:
            self.states, self.ledger = here, run.ledger
        return Gradients(here, there, run.ledger)

    def value_at(self, states: Tensor, at: str = "states") -> Tensor:
        """The explained value with other token states in place, (batch,)."""
        return wide(self._forward({}, at=at, states=states).goal.value.detach())

    def baseline_states(self, at: str = "states") -> Tensor:
        """The token states of an input that says nothing, (batch, tokens, hidden)."""
        run = self._forward({}, at=at, arguments=self.prepared.baseline_arguments)
        return self._batch_first(run.states.detach())

    def attentions(self, gradient: bool = False, first: int = 0) -> list[Any]:
        """(attention, gradient) of each layer from `first` on, (batch, head, query, key).

        The gradient is None unless asked for. Tracking begins at the lowest attention map, so
        nothing below it is paid for.
        """
        gradient = gradient or "gradient" in self.keep
        maps: list[Tensor] = []

        def record(attention: Tensor) -> Tensor:
            if gradient and not attention.requires_grad:
                attention = marks.mark(attention.detach().requires_grad_(), marks.LEAF)
            maps.append(attention)
            return attention

        run = self._forward(attention_rules.recording(record), track=False)
        if not maps:
            raise ModelError(_unseen("attention"))
        self.tokens = self._batch_first(run.states).shape[1]
        if not -len(maps) <= first < len(maps):
            raise OptionError(
                f"start_layer={first}, but the model has {len(maps)} attention layers:"
                f" {-len(maps)} to {len(maps) - 1}"
            )
        if run.exit is None:
            raise ModelError("the last block was never called: name the blocks by blocks='...'")
        below = len(maps) if not gradient else 0 if "gradient" in self.keep else first % len(maps)
        found = torch.autograd.grad(
            self._value(run), [run.exit, *maps[below:]], allow_unused=True
        )
        self.deciding = self._weights(found[0])
        slopes: list[Tensor | None] = [None] * below + [
            torch.zeros_like(a) if g is None else g
            for a, g in zip(maps[below:], found[1:], strict=True)
        ]
        self.layers = [
            (self._by_head(a.detach()), None if g is None else self._by_head(g))
            for a, g in zip(maps, slopes, strict=True)
        ]
        return self.layers[first % len(maps) :]

    def rows(self, reduce: str = "row") -> Tensor:
        """Where a walk down the layers starts, (batch, rows, tokens).

        One row: the deciding token's, or for "column_sum" all real tokens' together (the sum of
        rows passes through the products). All rows when the map is kept.
        """
        self._check_reduce(reduce)
        if "maps" in self.keep:
            return torch.diag_embed(self.mask.to(self.layers[0][0].dtype))
        return self._start(reduce).unsqueeze(1)

    def read_out(self, rows: Tensor, reduce: str = "row") -> Tensor:
        """The scores that a walk from `rows` ended in, (batch, tokens)."""
        if "maps" not in self.keep:
            return rows.squeeze(1)
        self.map = rows
        return (self._start(reduce).unsqueeze(1) @ rows).squeeze(1)

    def _start(self, reduce: str) -> Tensor:
        self._check_reduce(reduce)
        assert self.deciding is not None
        return self.deciding if reduce == "row" else self.mask.to(self.deciding.dtype)

    @staticmethod
    def _check_reduce(reduce: str) -> None:
        if reduce not in ("row", "column_sum"):
            raise OptionError(f"reduce={reduce!r}: choose 'row' or 'column_sum'")

    # -- the passes -------------------------------------------------------------------------------

    def output_only(self) -> None:
        """Runs the model once to know what is explained; for methods that do not look inside."""
        run = self._forward({}, track=False)
        self.tokens = self._batch_first(run.states).shape[1]

    def _forward(
        self,
        table: Table,
        at: str = "states",
        track: bool = True,
        conserve: bool = False,
        states: Tensor | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> _Pass:
        """One forward pass under the rules, up to the explained value."""
        ledger = Ledger(self.prepared.batch, self.blocks.batch_first, active=conserve)
        double = any(p.dtype == torch.float64 for p in self.module.parameters())
        seen: dict[str, Tensor] = {}

        def enter(tensor: Tensor) -> Tensor:
            if "states" in seen:
                return tensor
            self._check_states(tensor)
            leaf = tensor.detach() if tensor.requires_grad else tensor
            if states is not None:
                leaf = self._batch_first(states.to(tensor.dtype))
            if track:
                # The tensor itself becomes the leaf, because others than the first block may
                # read it too. Blocks get a copy: some write into their input.
                leaf = marks.mark(leaf.requires_grad_(), marks.LEAF)
            seen["states"] = leaf
            return leaf.clone() if track else leaf

        def leave(tensor: Tensor) -> Tensor:
            if not track and not tensor.requires_grad:
                tensor = marks.mark(tensor.detach().requires_grad_(), marks.LEAF)
            seen["exit"] = tensor
            return tensor

        hooks = [*_reading(self.module, self.blocks, at, enter), (
            self.blocks.last, "after", lambda module, inputs, output: _replaced(output, leave))]
        with hooked(hooks), Interception(table, ledger, double):
            # Detached: what the caller passed must not become the leaf it is tracked from.
            output = self.module(**{
                key: value.detach() if isinstance(value, Tensor) else value
                for key, value in (arguments or self.prepared.arguments).items()
            })
            if "states" not in seen:
                raise ModelError(
                    f"{type(self.module).__name__} ran without going through its blocks: name the"
                    " module that token states go through by blocks='path.to.blocks'"
                )
            goal = self._resolve(self._frozen_target(), output)
        if self.goal is None and arguments is None and states is None:
            self.goal = goal
        return _Pass(ledger, goal, seen["states"], seen.get("exit"))

    def _frozen_target(self) -> Any:
        """The target; once a class was predicted, that class: other states may predict others."""
        return self._target if self.goal is None else self.goal.target

    @staticmethod
    def _value(run: _Pass) -> Tensor:
        if not run.goal.value.requires_grad:
            raise TargetError(
                "the target does not depend on the token states: the value is the same whatever"
                " the tokens say, or the model detaches it on the way"
            )
        if not torch.isfinite(run.goal.value).all():
            raise ModelError(
                f"the explained value is not finite ({run.goal.value.tolist()}): the model"
                f" overflows in {run.states.dtype}; try float32"
            )
        return run.goal.value.sum()

    # -- shapes -----------------------------------------------------------------------------------

    def _check_states(self, tensor: Tensor) -> None:
        axis = 0 if self.blocks.batch_first else 1
        if tensor.dim() != 3 or tensor.shape[axis] != self.prepared.batch:
            order = "(batch, tokens, hidden)" if self.blocks.batch_first else (
                "(tokens, batch, hidden)")
            raise ModelError(
                f"expected token states of shape {order} with batch {self.prepared.batch} to enter"
                f" the first block, got {tuple(tensor.shape)}. If samples come"
                f" {'second' if axis == 0 else 'first'}, pass batch_first={axis == 1}; if these"
                " are not the blocks, name them by blocks='path.to.blocks'."
            )

    def _batch_first(self, tensor: Tensor) -> Tensor:
        return tensor if self.blocks.batch_first else tensor.transpose(0, 1)

    def _by_head(self, attention: Tensor) -> Tensor:
        """Attention as (batch, head, query, key), whatever axes the model folded together."""
        batch, tokens = self.prepared.batch, self.tokens
        if attention.shape[-2:] != (tokens, tokens):
            raise ModelError(
                f"an attention map of shape {tuple(attention.shape)} does not fit the {tokens}"
                " tokens of the model's one stream: whyformer cannot tell whose tokens it mixes"
            )
        return wide(attention).reshape(batch, -1, tokens, tokens)

    def _weights(self, gradient: Tensor | None) -> Tensor:
        """The deciding tokens as weights that add up to 1, (batch, tokens)."""
        if self._deciding is not None:
            return _named_tokens(self._deciding, self.mask)
        if gradient is None:
            raise TargetError(
                "the target does not depend on what the last block returned: name the deciding"
                " token by deciding='first', 'last', 'mean' or its index"
            )
        # The head reads a token exactly if the target moves with it.
        reads = (self._batch_first(gradient) != 0).any(-1) & self.mask
        if not reads.any(1).all():
            raise TargetError("the target depends on no token: its gradient is zero everywhere")
        weights = wide(reads.to(gradient.dtype))
        return weights / weights.sum(1, keepdim=True)


def _unseen(what: str) -> str:
    return (
        f"no {what} was seen inside the model's blocks, so this method has nothing to work with."
        " If the blocks are elsewhere, name them by blocks='path.to.blocks'; if the model has no"
        " attention (softmax times values), use 'gradient_x_input' or 'integrated_gradients'."
    )


def _named_tokens(deciding: Any, mask: Tensor) -> Tensor:
    """Weights of the tokens that the caller named, (batch, tokens)."""
    count = mask.shape[1]
    if deciding == "mean":
        weights = mask.float()
    elif deciding in ("first", "last") or isinstance(deciding, int):
        index = {"first": 0, "last": -1}.get(deciding, deciding)
        if not -count <= index < count:
            raise OptionError(f"deciding={deciding}: the sequence has {count} tokens")
        positions = torch.arange(count).expand_as(mask)
        real = positions.masked_fill(~mask, -1)
        last = real.amax(1)
        chosen = last + 1 + index if index < 0 else torch.full_like(last, index)
        weights = (positions == chosen.unsqueeze(1)).float()
    else:
        raise OptionError(
            f"deciding={deciding!r}: choose 'first', 'last', 'mean' or the index of a token"
        )
    return weights / weights.sum(1, keepdim=True)


def _reading(
    module: nn.Module, blocks: Blocks, at: str, enter: Callable[[Tensor], Tensor]
) -> list[tuple[nn.Module, str, Any]]:
    """The hook that sees the token states where relevance is read."""
    if at == "states":

        def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
            for i, value in enumerate(args):
                if isinstance(value, Tensor) and value.is_floating_point():
                    return (*args[:i], enter(value), *args[i + 1 :]), kwargs
            for key, value in kwargs.items():
                if isinstance(value, Tensor) and value.is_floating_point():
                    return args, {**kwargs, key: enter(value)}
            return None

        return [(blocks.first, "before", before)]
    if at == "embeddings":
        find = getattr(module, "get_input_embeddings", None)
        if find is None:
            raise OptionError(
                f"at='embeddings' needs a model with get_input_embeddings();"
                f" {type(module).__name__} has none: use at='states'"
            )
        return [(find(), "after", lambda m, inputs, output: _replaced(output, enter))]
    raise OptionError(f"at={at!r}: choose 'states' or 'embeddings'")


def _replaced(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A module's output with its first tensor changed."""
    if isinstance(output, Tensor):
        return change(output)
    if isinstance(output, (tuple, list)):
        return type(output)([change(output[0]), *output[1:]])
    first = next(key for key, value in output.items() if isinstance(value, Tensor))
    output[first] = change(output[first])
    return output
