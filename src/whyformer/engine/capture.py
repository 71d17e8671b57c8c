"""What methods ask of a model: token states, attention maps, their gradients and relevances.

Each question is one forward pass and one backward pass (two for relevance, over one graph). What
is known per sequence of states is kept by the name of its stack; most models have one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.attribution import Layer
from whyformer.batching.budget import budget_of
from whyformer.engine.backward import gradients_at, relevances_at
from whyformer.engine.deciding_tokens import named_tokens, read_by_head, tokens_read
from whyformer.engine.forward import Table, Watch, is_double, run_forward
from whyformer.engine.interception import Interception
from whyformer.engine.recording import MAPS, Maps, RelevanceSums, unseen
from whyformer.engine.rules.attention_maps import recording_table
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations.fused_attention import wide_call
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.rules.relevance.switch import Direction, run_without_rule
from whyformer.engine.rules.relevance.table import relevance_table
from whyformer.engine.segments import Segment, find_segments
from whyformer.engine.stacks import Stacks
from whyformer.engine.streamed_layers import AnyLayer, Recomputed, dtype_of
from whyformer.errors import ModelError, OptionError, TargetError
from whyformer.inputs.batch import Batch
from whyformer.inputs.rows import has_rows, rows_of
from whyformer.models.families import Family, Pair
from whyformer.targets.resolve import Goal

Scores = dict[str, Tensor]  # (batch, tokens) by stack
States = dict[str, Tensor]  # (batch, tokens, hidden) by stack


@dataclass(frozen=True)
class Gradients:
    """Token states and the gradient there, (batch, tokens, hidden) by stack."""

    states: States
    gradient: States
    ledger: Ledger

    def relevance(self) -> Scores:
        """Gradient x input, summed over the hidden axis."""
        return {
            name: (wide(states) * wide(self.gradient[name])).sum(-1)
            for name, states in self.states.items()
        }


class Capture:
    """A model on one batch of inputs, ready to be run under a method's rules."""

    def __init__(
        self,
        module: nn.Module,
        prepared: Batch,
        stacks: Stacks,
        resolve: Callable[[Any, Any, Batch], Goal],
        target: Any = None,
        deciding: Any = None,
        keep: Collection[str] = (),
        family: Family | None = None,
        memory: str | None = None,
    ) -> None:
        self.module = module
        self.prepared = prepared
        self.stacks = stacks
        self.keep = frozenset(keep)
        self._resolve = resolve
        self._target = target
        self._deciding = deciding
        self._family = family
        # Maps that the caller wants to keep have to be held.
        self._memory = "maps" if self.keep & MAPS else memory
        self.goal: Goal | None = None
        self.tokens: dict[str, int] = {}  # in the states, an image's class token included
        self.masks: dict[str, Tensor] = {}  # (batch, tokens), False at padding
        self.segments: dict[str, tuple[Segment, ...]] = {}  # whose tokens they are
        self.deciding: dict[str, Tensor] = {}  # (batch, tokens), each row adds up to 1 or is 0
        self.layers: tuple[AnyLayer, ...] = ()
        self.maps: dict[Pair, Tensor] = {}  # (batch, tokens, tokens), if kept
        self.pixels: Tensor | None = None  # (batch, height, width), if a method got there
        self.states: States = {}  # where scores are read
        self.state_relevance: States = {}  # the same, of its relevance
        self.ledger: Ledger | None = None

    # -- token states ------------------------------------------------------------------------------

    def output_only(self) -> None:
        """Runs the model once to know what is explained; for methods that do not look inside."""
        self._forward({}, Watch(track=False), self._ledger())

    def gradients(
        self,
        table: Table,
        at: str = "states",
        conserve: bool = False,
        states: States | None = None,
        needs: str | None = None,
    ) -> Gradients:
        """States and gradient under a table of rules; `states` replaces the model's own.

        A rule that the method `needs` and that never applied is an error: without it the scores
        would be another method's.
        """
        watch, ledger = Watch(at=at, replace=states or {}), self._ledger(conserve)
        goal = self._forward(table, watch, ledger)
        if needs and not ledger.counts[needs]:
            raise ModelError(unseen(needs))
        found = gradients_at(_value(goal), {"states": [*watch.states.values()]})["states"]
        if states is None:
            self.ledger = ledger
        return Gradients(
            self._by_stack(watch.states, [s.detach() for s in watch.states.values()]),
            self._by_stack(watch.states, found),
            ledger,
        )

    def states_at(self, at: str = "states") -> States:
        """The token states, without a gradient; what is explained is known then."""
        watch, self.ledger = Watch(at=at, track=False), self._ledger()
        self._forward({}, watch, self.ledger)
        return self._by_stack(watch.states, [s.detach() for s in watch.states.values()])

    def value_at(self, states: States, at: str = "states") -> Tensor:
        """The explained value with other token states in place, (batch,)."""
        goal = self._forward({}, Watch(at=at, replace=states), self._ledger())
        return wide(goal.value.detach())

    def repeated(self, most: int) -> tuple[Capture, int]:
        """The same batch several times in one pass, and how often: as fits, and at most so often.

        What is explained is known then. A target that is a callable has to see the batch as it is.
        """
        assert self.goal is not None
        tokens = max(1, sum(self.tokens.values())) * self.prepared.size
        times = min(most, budget_of(self.module).tokens // tokens)
        picks = self.goal.target
        if times < 2 or not isinstance(picks, list) or not has_rows(self.prepared, self.module):
            return self, 1
        larger = Capture(
            self.module,
            rows_of(self.prepared, [*range(self.prepared.size)] * times),
            self.stacks,
            self._resolve,
            target=picks * times,
            family=self._family,
        )
        return larger, times

    def baseline_states(self, at: str = "states") -> States:
        """The token states of an input that says nothing."""
        watch = Watch(at=at, track=False)
        self._forward({}, watch, self._ledger(), self.prepared.baseline_arguments)
        return self._by_stack(watch.states, [s.detach() for s in watch.states.values()])

    # -- attention maps ----------------------------------------------------------------------------

    def attentions(
        self,
        gradient: bool = False,
        first: int = 0,
        end: int | None = None,
        by_pair: bool = False,
    ) -> tuple[AnyLayer, ...]:
        """Attention of the layers from `first` up to `end`, and its gradient if asked for.

        Counted for each asking stack, or for each pair of stacks; in the order they ran. Tracking
        begins at the lowest attention map, so nothing below it is paid for.
        """
        gradient = gradient or "gradient" in self.keep
        watch, ledger = Watch(track=False), self._ledger()
        seen = Maps(watch, ledger, self.stacks, leaf=gradient, memory=self._memory)
        goal = self._forward(recording_table(seen.record, seen.hold), watch, ledger)
        chosen = seen.chosen(first, end, by_pair)
        sloping = range(len(seen.maps)) if "gradient" in self.keep else chosen if gradient else []
        slopes = gradients_at(
            _value(goal), {"exit": [*watch.left.values()], "maps": [seen.maps[i] for i in sloping]}
        )
        self._find_deciding(watch.left, slopes["exit"])
        found = dict(zip(sloping, slopes["maps"], strict=True))
        self.layers = tuple(
            self._layer(seen, i, gradient=found.get(i)) for i in range(len(seen.maps))
        )
        return tuple(self.layers[i] for i in chosen)

    def relevances(
        self,
        rules: str,
        first: int = 0,
        gradient: bool = True,
        reach: str = "attention",
        by_pair: bool = False,
    ) -> tuple[AnyLayer, ...]:
        """Attention, gradient and relevance of each layer from `first` on, in the order they ran.

        `reach` is how far down relevance is followed: to the "attention" maps, to the token
        "states" (then in `self.state_relevance`), or to an image's "pixels".
        """
        gradient = gradient or "gradient" in self.keep
        per_block = "relevance" in self.keep and self.stacks.only is not None
        whole = per_block or reach != "attention"
        direction = Direction()
        # From the states on, so that an addend that is not tracked is a constant. The backward
        # passes do not go below what they are asked for.
        watch = Watch(leaf=self.prepared.carrier if reach == "pixels" else None)
        ledger = self._ledger()
        seen = Maps(watch, ledger, self.stacks, leaf=False, memory=self._memory)
        table = relevance_table(direction, rules, seen.record, seen.hold)
        goal = self._forward(
            table, watch, ledger, fallback=partial(run_without_rule, direction), read_inside=False
        )
        chosen, value = seen.chosen(first, by_pair=by_pair), _value(goal)
        every = range(len(seen.maps))
        needed = every if whole or "relevance" in self.keep else chosen
        sloping = every if "gradient" in self.keep else needed if gradient else []
        slopes = gradients_at(
            value,
            {"exit": [*watch.left.values()], "maps": [seen.maps[i] for i in sloping]},
            keep_graph=True,
        )
        self._find_deciding(watch.left, slopes["exit"])
        sums = RelevanceSums(watch.leaving, ledger, self.stacks.batch_first)
        found = relevances_at(
            value,
            watch.spoken,
            direction,
            {
                "maps": [seen.maps[i] for i in needed],
                "entering": watch.entering if per_block else [],
                "leaving": [*watch.left.values()] if per_block else [],
                "states": [*watch.states.values()] if reach != "attention" else [],
                "pixels": [watch.arguments[watch.leaf]] if watch.leaf else [],
            },
        )
        parts = {
            "gradient": dict(zip(sloping, slopes["maps"], strict=True)),
            "relevance": dict(zip(needed, found["maps"], strict=True)),
        }
        blocks = {
            "entering": dict(zip(every, found["entering"], strict=False)),
            "leaving": dict(zip([every[-1]], found["leaving"], strict=False)),
        }
        self.layers = tuple(
            self._layer(
                seen,
                i,
                relevance_sum=sums.of(i, len(seen.maps)) if self.stacks.only else None,
                blocks={k: self._batch_first(t[i]) for k, t in blocks.items() if i in t},
                **{part: maps.get(i) for part, maps in parts.items()},
            )
            for i in every
        )
        if found["states"]:
            self.state_relevance = self._by_stack(watch.states, found["states"])
        if found["pixels"]:
            self.pixels = wide(found["pixels"][0]).sum(1)
        return tuple(self.layers[i] for i in chosen)

    def _layer(
        self,
        seen: Maps,
        i: int,
        relevance_sum: Tensor | None = None,
        blocks: Mapping[str, Tensor] | None = None,
        **maps: Tensor | None,
    ) -> AnyLayer:
        """One layer with its maps as (batch, head, query, key), or with what they are made of."""
        (asking, answering), together = seen.pairs[i]
        call = seen.calls[i]
        if call is not None:
            self._check_map((call.query.shape[-2], call.key.shape[-2]), asking, answering)
            return Recomputed(
                self.prepared.size,
                wide_call(call),
                wide(seen.maps[i].detach()),
                relevance_sum=relevance_sum,
                asking=asking,
                answering=answering,
                together=together,
                **{f"{part}_there": None if m is None else wide(m) for part, m in maps.items()},
            )
        shaped = partial(self._by_head, asking=asking, answering=answering)
        return Layer(
            attention=shaped(seen.maps[i].detach()),
            relevance_sum=relevance_sum,
            asking=asking,
            answering=answering,
            together=together,
            **(blocks or {}),
            **{part: None if m is None else shaped(m) for part, m in maps.items()},
        )

    # -- walks down the layers ---------------------------------------------------------------------

    def rows(self, stack: str, reduce: str = "row") -> Tensor:
        """Where a walk down one stack's layers starts, (batch, rows, tokens).

        One row: the deciding token's, or for "column_sum" all real tokens' together (the sum of
        rows passes through the products). All rows when the map is kept.
        """
        start = self._start(stack, reduce)
        if self.keeps_maps(stack):
            return torch.diag_embed(self.masks[stack].to(start.dtype))
        return start.unsqueeze(1)

    def read_out(self, stack: str, rows: Tensor, reduce: str = "row") -> Tensor:
        """The scores that a walk from `rows` ended in, (batch, tokens)."""
        if not self.keeps_maps(stack):
            return rows.squeeze(1)
        self.maps[stack, stack] = rows
        return (self._start(stack, reduce).to(rows.dtype).unsqueeze(1) @ rows).squeeze(1)

    def read_maps(self, maps: Mapping[Pair, Tensor], reduce: str = "row") -> Scores:
        """The scores that relevancies between stacks give the deciding tokens, by stack."""
        self.maps = dict(maps)
        scores: Scores = {}
        for (asking, answering), relevancy in maps.items():
            if asking in self.deciding:
                start = self._start(asking, reduce).to(relevancy.dtype).unsqueeze(1)
                found = (start @ relevancy).squeeze(1)
                scores[answering] = scores[answering] + found if answering in scores else found
        return scores

    def keeps_maps(self, stack: str) -> bool:
        """Whether the whole relevancy of a stack is wanted: by the caller, or between streams."""
        return "maps" in self.keep or len(self.segments.get(stack, ())) > 1

    def _start(self, stack: str, reduce: str) -> Tensor:
        if reduce not in ("row", "column_sum"):
            raise OptionError(f"reduce={reduce!r}: choose 'row' or 'column_sum'")
        start = self.deciding[stack] if reduce == "row" else self.masks[stack]
        return start.to(dtype_of(self.layers[0]))

    def _find_deciding(self, left: Mapping[str, Tensor], slopes: Sequence[Tensor]) -> None:
        """The tokens that decide, by stack; stacks that no head reads have none."""
        if not left:
            raise ModelError("the last block was never called: name the blocks by blocks='...'")
        reads = {}
        for name, slope in zip(left, slopes, strict=True):
            gradient = self._batch_first(slope)
            leaving = gradient.shape[1]
            if name not in self.tokens:
                self.tokens[name] = leaving
                self.masks[name] = gradient.new_ones(gradient.shape[:2], dtype=torch.bool)
            if leaving != self.tokens[name]:
                raise ModelError(
                    f"{self.tokens[name]} tokens enter the blocks of {type(self.module).__name__}"
                    f" and {leaving} leave: it merges tokens, so its attention maps do not chain."
                    " Methods that need no maps can explain it: 'lrp_ah_ln', 'attn_lrp',"
                    " 'gradient_x_input', 'integrated_gradients'."
                )
            reads[name] = tokens_read(gradient, self.masks[name])
        if self._deciding is not None:
            read = [name for name, tokens in reads.items() if tokens.any()] or [*reads]
            self.deciding = {name: named_tokens(self._deciding, self.masks[name]) for name in read}
        else:
            self.deciding = read_by_head(reads, wide(slopes[0]).dtype)

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
        only = self.stacks.only
        if watch.at == "embeddings" and (only is None or len(only.stack.streams) > 1):
            raise OptionError(
                "at='embeddings' is for models with one stream of text: not every stream here has"
                " word embeddings; use at='states'"
            )
        own = self._family.rules if self._family else {}
        goal: Goal = run_forward(
            self.module,
            arguments or self.prepared.arguments,
            self.stacks,
            self.prepared.size,
            watch,
            Interception({**table, **own}, ledger, is_double(self.module), fallback),
            lambda output: self._resolve(target, output, self.prepared),
            read_inside,
            self._family.speaks if self._family else "",
        )
        self._find_segments(watch)
        if self.goal is None and arguments is None and not watch.replace:
            self.goal = goal
            self.states = self._by_stack(watch.states, [s.detach() for s in watch.states.values()])
        return goal

    def _find_segments(self, watch: Watch) -> None:
        family = self._family
        config = getattr(self.module, "config", None)
        prefix = None if family is None else family.prefix_tokens(config)
        for name, states in watch.states.items():
            self.tokens[name] = count = self._batch_first(states).shape[1]
            found = find_segments(
                type(self.module).__name__,
                self.stacks.tracks[name].stack,
                count,
                self.prepared,
                prefix,
                states.device,
            )
            mask = states.new_ones(self.prepared.size, count, dtype=torch.bool)
            for segment in found:
                mask[:, segment.columns] = segment.mask.to(mask.device)
            self.segments[name], self.masks[name] = found, mask

    def _ledger(self, conserve: bool = False) -> Ledger:
        """A ledger laid out as the blocks are; it books nothing where no sum is promised."""
        return Ledger(
            self.prepared.size,
            self.stacks.batch_first,
            active=conserve,
            declared=self._family is not None,
        )

    def _batch_first(self, tensor: Any) -> Tensor:
        return tensor if self.stacks.batch_first else tensor.transpose(0, 1)

    def _by_stack(self, stacks: Mapping[str, Any], tensors: Sequence[Tensor]) -> dict[str, Tensor]:
        return {
            name: self._batch_first(tensor) for name, tensor in zip(stacks, tensors, strict=True)
        }

    def _by_head(self, attention: Tensor, asking: str, answering: str) -> Tensor:
        """Attention as (batch, head, query, key), whatever axes the model folded together."""
        shape = self._check_map(tuple(attention.shape), asking, answering)
        return wide(attention).reshape(self.prepared.size, -1, *shape)

    def _check_map(self, found: tuple[int, ...], asking: str, answering: str) -> tuple[int, int]:
        """(queries, keys) of a map; raises where they are not these stacks' tokens."""
        shape = (self.tokens[asking], self.tokens[answering])
        if found[-2:] != shape:
            whose = (
                f"the {shape[0]} tokens of the model's one stream"
                if self.stacks.only
                else f"the {shape[0]} tokens of '{asking}' that ask the {shape[1]} of '{answering}'"
            )
            raise ModelError(
                f"an attention map of shape {found} does not fit {whose}:"
                " whyformer cannot tell whose tokens it mixes"
            )
        return shape


def _value(goal: Goal) -> Tensor:
    if not goal.value.requires_grad:
        raise TargetError(
            "the target does not depend on the token states: the value is the same whatever the"
            " tokens say, or the model detaches it on the way"
        )
    return goal.value
