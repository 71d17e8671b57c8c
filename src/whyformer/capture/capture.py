"""What methods ask of a model: token states, attention maps, their gradients and relevances.

Each question is one forward pass and one backward pass (two for relevance, over one graph).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.attribution import Layer
from whyformer.capture.backward import gradients_at, relevances_at
from whyformer.capture.blocks import Blocks
from whyformer.capture.deciding import named_tokens, read_by_head
from whyformer.capture.forward import Table, Watch, is_double, run_forward
from whyformer.capture.mode import Interception
from whyformer.capture.record import Maps, RelevanceSums, aligned, unseen
from whyformer.capture.streams import check_tokens
from whyformer.errors import ModelError, OptionError, TargetError
from whyformer.families import Family
from whyformer.inputs.prepared import Prepared
from whyformer.inputs.targets import Goal
from whyformer.rules import attention as attention_rules
from whyformer.rules.ledger import Ledger
from whyformer.rules.relevance import Relevance, unruled
from whyformer.rules.stabilise import wide
from whyformer.rules.switch import Direction


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
        keep: Collection[str] = (),
        family: Family | None = None,
    ) -> None:
        self.module = module
        self.prepared = prepared
        self.blocks = blocks
        self.keep = frozenset(keep)
        self._resolve = resolve
        self._target = target
        self._deciding = deciding
        self._family = family
        self.goal: Goal | None = None
        self.tokens = 0  # in the states, prefix tokens included
        self.deciding: Tensor | None = None  # (batch, tokens), each row adds up to 1
        self.layers: tuple[Layer, ...] = ()
        self.map: Tensor | None = None  # (batch, tokens, tokens), if kept
        self.pixels: Tensor | None = None  # (batch, height, width), if a method got there
        self.states: Tensor | None = None  # (batch, tokens, hidden) where scores are read
        self.state_relevance: Tensor | None = None  # the same, of its relevance
        self.ledger: Ledger | None = None

    @property
    def mask(self) -> Tensor:
        """True at real tokens, prefix tokens included, (batch, tokens)."""
        if self.prepared.mask is not None:
            return self.prepared.mask
        device = next((p.device for p in self.module.parameters()), None)
        return torch.ones(self.prepared.batch, self.tokens, dtype=torch.bool, device=device)

    @property
    def prefix(self) -> int:
        """How many tokens stand before an image's patches in the states."""
        if self.prepared.grid is None:
            return 0
        rows, columns = self.prepared.grid
        return self.tokens - rows * columns

    # -- token states ------------------------------------------------------------------------------

    def output_only(self) -> None:
        """Runs the model once to know what is explained; for methods that do not look inside."""
        self._forward({}, Watch(track=False), self._ledger())

    def gradients(
        self,
        table: Table,
        at: str = "states",
        conserve: bool = False,
        states: Tensor | None = None,
        needs: str | None = None,
    ) -> Gradients:
        """States and gradient under a table of rules; `states` replaces the model's own.

        A rule that the method `needs` and that never applied is an error: without it the scores
        would be another method's.
        """
        watch, ledger = Watch(at=at, replace=states), self._ledger(conserve)
        goal = self._forward(table, watch, ledger)
        if needs and not ledger.counts[needs]:
            raise ModelError(unseen(needs))
        (gradient,) = gradients_at(_value(goal), {"states": [watch.states]})["states"]
        here, there = self._batch_first(watch.states.detach()), self._batch_first(gradient)
        if states is None:
            self.ledger = ledger
        return Gradients(here, there, ledger)

    def value_at(self, states: Tensor, at: str = "states") -> Tensor:
        """The explained value with other token states in place, (batch,)."""
        goal = self._forward({}, Watch(at=at, replace=states), self._ledger())
        return wide(goal.value.detach())

    def baseline_states(self, at: str = "states") -> Tensor:
        """The token states of an input that says nothing, (batch, tokens, hidden)."""
        watch = Watch(at=at)
        self._forward({}, watch, self._ledger(), self.prepared.baseline_arguments)
        return self._batch_first(watch.states.detach())

    # -- attention maps ----------------------------------------------------------------------------

    def attentions(
        self, gradient: bool = False, first: int = 0, end: int | None = None
    ) -> tuple[Layer, ...]:
        """Attention of the layers from `first` up to `end`, and its gradient if asked for.

        Tracking begins at the lowest attention map, so nothing below it is paid for.
        """
        gradient = gradient or "gradient" in self.keep
        watch, ledger = Watch(track=False), self._ledger()
        seen = Maps(watch, ledger, leaf=gradient)
        goal = self._forward(attention_rules.recording(seen.record), watch, ledger)
        start = seen.index(first)
        below = 0 if "gradient" in self.keep else start
        slopes = gradients_at(
            _value(goal), {"exit": [_last(watch)], "maps": seen.maps[below:] if gradient else []}
        )
        self._find_deciding(slopes["exit"][0])
        rows = aligned(len(seen.maps), gradient=slopes["maps"])
        self.layers = tuple(
            Layer(attention=self._by_head(attention.detach()), **self._all_by_head(row))
            for attention, row in zip(seen.maps, rows, strict=True)
        )
        chosen = self.layers[start:end]
        if not chosen or (end is not None and abs(end) > len(self.layers)):
            raise OptionError(
                f"start_layer={first} and end_layer={end} leave no layers of {len(self.layers)}:"
                f" end_layer is behind the last one wanted, {start + 1} to {len(self.layers)}"
            )
        return chosen

    def relevances(
        self, rules: str, first: int = 0, gradient: bool = True, reach: str = "attention"
    ) -> tuple[Layer, ...]:
        """Attention, gradient and relevance of each layer from `first` on.

        `reach` is how far down relevance is followed: to the "attention" maps, to the token
        "states" (then in `self.state_relevance`), or to an image's "pixels".
        """
        gradient = gradient or "gradient" in self.keep
        per_block = "relevance" in self.keep
        whole = per_block or reach != "attention"
        direction = Direction()
        watch = Watch(track=whole, leaf=self.prepared.carrier if reach == "pixels" else None)
        ledger = self._ledger()
        seen = Maps(watch, ledger, leaf=not whole)
        table = Relevance(direction, rules, seen.record).table()
        goal = self._forward(
            table, watch, ledger, fallback=partial(unruled, direction), read_inside=False
        )
        start, value, last = seen.index(first), _value(goal), _last(watch)
        maps = seen.maps if whole else seen.maps[start:]
        sloping = seen.maps if "gradient" in self.keep else maps if gradient else []
        slopes = gradients_at(value, {"exit": [last], "maps": sloping}, keep_graph=True)
        self._find_deciding(slopes["exit"][0])
        sums = RelevanceSums(watch.leaving, ledger, self.blocks.batch_first)
        found = relevances_at(
            value,
            watch.spoken,
            direction,
            {
                "maps": maps,
                "entering": watch.entering if per_block else [],
                "leaving": [last] if per_block else [],
                "states": [watch.states] if reach != "attention" else [],
                "pixels": [watch.arguments[watch.leaf]] if watch.leaf else [],
            },
        )
        rows = aligned(len(seen.maps), gradient=slopes["maps"], relevance=found["maps"])
        blocks = aligned(len(seen.maps), entering=found["entering"], leaving=found["leaving"])
        self.layers = tuple(
            Layer(
                attention=self._by_head(attention.detach()),
                relevance_sum=sums.of(i, len(seen.maps)),
                **self._all_by_head(row),
                **{k: None if t is None else self._batch_first(t) for k, t in block.items()},
            )
            for i, (attention, row, block) in enumerate(zip(seen.maps, rows, blocks, strict=True))
        )
        if found["states"]:
            self.state_relevance = self._batch_first(found["states"][0])
        if found["pixels"]:
            self.pixels = wide(found["pixels"][0]).sum(1)
        return self.layers[start:]

    def _all_by_head(self, maps: Mapping[str, Tensor | None]) -> dict[str, Tensor | None]:
        return {name: None if m is None else self._by_head(m) for name, m in maps.items()}

    # -- walks down the layers ---------------------------------------------------------------------

    def rows(self, reduce: str = "row") -> Tensor:
        """Where a walk down the layers starts, (batch, rows, tokens).

        One row: the deciding token's, or for "column_sum" all real tokens' together (the sum of
        rows passes through the products). All rows when the map is kept.
        """
        start = self._start(reduce)
        if "maps" in self.keep:
            return torch.diag_embed(self.mask.to(start.dtype))
        return start.unsqueeze(1)

    def read_out(self, rows: Tensor, reduce: str = "row") -> Tensor:
        """The scores that a walk from `rows` ended in, (batch, tokens)."""
        if "maps" not in self.keep:
            return rows.squeeze(1)
        self.map = rows
        return (self._start(reduce).to(rows.dtype).unsqueeze(1) @ rows).squeeze(1)

    def _start(self, reduce: str) -> Tensor:
        if reduce not in ("row", "column_sum"):
            raise OptionError(f"reduce={reduce!r}: choose 'row' or 'column_sum'")
        assert self.deciding is not None
        start = self.deciding if reduce == "row" else self.mask
        (attention,) = self.layers[0].read("attention")
        return start.to(attention.dtype)

    def _find_deciding(self, gradient: Tensor) -> None:
        leaving = self._batch_first(gradient).shape[1]
        if leaving != self.tokens:
            raise ModelError(
                f"{self.tokens} tokens enter the blocks of {type(self.module).__name__} and"
                f" {leaving} leave: it merges tokens, so its attention maps do not chain. Methods"
                " that need no maps can explain it: 'lrp_ah_ln', 'attn_lrp', 'gradient_x_input',"
                " 'integrated_gradients'."
            )
        if self._deciding is not None:
            self.deciding = named_tokens(self._deciding, self.mask)
        else:
            self.deciding = read_by_head(self._batch_first(gradient), self.mask)

    # -- one pass ----------------------------------------------------------------------------------

    def _forward(
        self,
        table: Table,
        watch: Watch,
        ledger: Ledger,
        arguments: Mapping[str, Any] | None = None,
        fallback: Any = None,
        read_inside: bool = True,
    ) -> Goal:
        # Once a class was predicted, that class is meant: other states may predict others.
        target = self._target if self.goal is None else self.goal.target
        goal: Goal = run_forward(
            self.module,
            arguments or self.prepared.arguments,
            self.blocks,
            self.prepared.batch,
            watch,
            Interception(table, ledger, is_double(self.module), fallback),
            partial(self._resolve, target),
            read_inside,
        )
        self.tokens = self._batch_first(watch.states).shape[1]
        mask = self.prepared.mask
        check_tokens(
            type(self.module).__name__,
            self.tokens,
            None if mask is None else mask.shape[1],
            self.prepared.grid,
            None if self._family is None else self._family.prefix_tokens(self.module.config),
        )
        if self.goal is None and arguments is None and watch.replace is None:
            self.goal, self.states = goal, self._batch_first(watch.states.detach())
        return goal

    def _ledger(self, conserve: bool = False) -> Ledger:
        """A ledger laid out as the blocks are; it books nothing where no sum is promised."""
        return Ledger(
            self.prepared.batch,
            self.blocks.batch_first,
            active=conserve,
            declared=self._family is not None,
        )

    def _batch_first(self, tensor: Any) -> Tensor:
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


def _last(watch: Watch) -> Tensor:
    if not watch.leaving:
        raise ModelError("the last block was never called: name the blocks by blocks='...'")
    return watch.leaving[-1]


def _value(goal: Goal) -> Tensor:
    if not goal.value.requires_grad:
        raise TargetError(
            "the target does not depend on the token states: the value is the same whatever the"
            " tokens say, or the model detaches it on the way"
        )
    return goal.value
