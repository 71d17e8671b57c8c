"""The balanced pass: relevance at every block and gradients of attention maps, in one backward.

Attention weights, norm deviations and activation gates are constants (Ali et al. 2022; LibraGrad,
Mehri et al. 2025), so the explained value is linear in the states that enter any block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from whyformer.attribution import Nodes, Reason
from whyformer.engine.backward import gradients_at
from whyformer.engine.balance import book_again_if_mixed_up, is_off
from whyformer.engine.block_relevance import BlockRelevance
from whyformer.engine.forward import Trace
from whyformer.engine.layer_building import make_layers
from whyformer.engine.nodes import NodeRecorder
from whyformer.engine.passes.attentions import (
    Attentions,
    reasons_of,
    recording_of,
    refuse_without_maps,
    with_deciding,
)
from whyformer.engine.passes.forward_only import (
    Recording,
    Table,
    differentiable_value,
    record_forward,
)
from whyformer.engine.passes.tower import TowerRelevance, tower_relevance
from whyformer.engine.recording import AttentionRecorder, missing_operation
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.rules.ledger import Booking, Place
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.rules.rule_sets import RuleSet, balanced_rules
from whyformer.engine.run import Run
from whyformer.engine.streamed_layers import Mix
from whyformer.engine.structure import find_structure
from whyformer.errors import OptionError

# Relevance that reaches the lowest states by other ways than through the blocks.
FIRST_BLOCK = (
    "scores are read at the first block instead of averaged over blocks, because relevance goes on"
    " through the image encoder"
)
BYPASS = "states that bypass the blocks"

Amounts = dict[str, tuple[list[Booking], Tensor]]  # bookings and amounts, by account


@dataclass(frozen=True)
class Balanced(Attentions):
    """Attention layers with their balanced gradient, and relevance at the input of every block.

    Attributes:
        blocks: Relevance at each block's input, (batch, tokens), by stack; None if unreadable.
        sinks: Relevance of constants, (batch,), by account and block.
        token_sinks: The same, (batch, tokens), if they were booked per token.
        leaks: Relevance lost in operations without a rule, (batch,), by operation and block.
        nodes: Relevance of inner nodes by stack, if the user keeps them.
        patches: Relevance that went on through an image encoder, if the run asks for it.
    """

    blocks: Mapping[str, tuple[Tensor | None, ...]] = field(default_factory=dict)
    sinks: Mapping[Booking, Tensor] = field(default_factory=dict)
    token_sinks: Mapping[Booking, Tensor] = field(default_factory=dict)
    leaks: Mapping[Booking, Tensor] = field(default_factory=dict)
    nodes: Mapping[str, Nodes] = field(default_factory=dict)
    patches: TowerRelevance | None = None

    @property
    def block_counts(self) -> dict[str, int]:
        """How many blocks each stack has."""
        return {stack: len(blocks) for stack, blocks in self.blocks.items()}

    def average(self, wanted: Mapping[str, Sequence[int]]) -> LayerAverage:
        """Return the mean relevance over the inputs of some blocks of each stack.

        `wanted` has the numbers of these blocks by stack. At each block, relevance and the sinks
        above it sum to the explained value, so their means do too. Blocks with other tokens than
        the first one, or that read another stack, cannot be averaged: then the stack is read at
        its first block. Blocks that relevance passes beside (the model reads states below them
        again) are left out, unless no block is left.
        """
        chosen = {stack: self._readable(stack, blocks) for stack, blocks in wanted.items()}
        found, bottom = self._mean(chosen), self._mean(dict.fromkeys(self.blocks, (0,)))
        bypass = bottom.total() - found.total()
        if self._is_off(bypass, bottom):
            found = self._mean(
                {stack: self._passed(stack, own, bottom) for stack, own in chosen.items()}
            )
            bypass = bottom.total() - found.total()
        return LayerAverage(found.scores, found.sinks, {**found.leaks, BYPASS: bypass})

    def average_result(self, wanted: Mapping[str, Sequence[int]]) -> MethodResult:
        """Return the mean over some blocks of each stack as a method's result.

        Relevance that goes on through an image encoder is that at the first block, so all scores
        are read there.
        """
        first = self.patches is not None
        found = self.average(dict.fromkeys(wanted, (0,)) if first else wanted)
        return MethodResult(
            self.forward,
            found.scores,
            sinks=found.sinks,
            leaks=found.leaks,
            nodes=self.nodes,
            notes=(FIRST_BLOCK,) if first else (),
            reasons=self.reasons,
            patches=self.patches,
        )

    def hidden_losses(self, name: str) -> dict[Booking, Tensor]:
        """Return the relevance that hidden operations lost, (batch,), by block if that is known.

        Every other operation is booked, so what is missing in the balance at the input of a block
        was lost above it in hidden operations.
        """
        value = wide(self.forward.goal.value.detach())
        if len(self.blocks) > 1:
            return {(name, None): value - self._mean(dict.fromkeys(self.blocks, (0,))).total()}
        ((stack, blocks),) = self.blocks.items()
        losses: dict[Booking, Tensor] = {}
        above = torch.zeros_like(value)
        for i in reversed(range(len(blocks))):
            states = blocks[i]
            if states is not None:
                missing = value - self._mean({stack: (i,)}).total()
                losses[name, Place(stack, i, states.shape[1])] = missing - above
                above = missing
        return losses

    def like_the_first(self, stack: str) -> tuple[int, ...]:
        """Return the blocks of a stack with the same tokens as the first one."""
        blocks = self.blocks[stack]
        shape = next(one.shape for one in blocks if one is not None)
        return tuple(i for i, one in enumerate(blocks) if one is not None and one.shape == shape)

    def _readable(self, stack: str, wanted: Sequence[int]) -> tuple[int, ...]:
        """The wanted blocks of a stack that can be averaged."""
        blocks = self.blocks[stack]
        if self.run.stacks.reads_another(stack):
            return (0,)
        same = self.like_the_first(stack)
        chosen = tuple(i for i in wanted if i in same)
        if not chosen:
            raise OptionError(
                f"none of the {len(blocks)} layers is chosen",
                argument="start_layer",
                remedy=f"Choose layers from 0 to {len(blocks) - 1}; end_layer is exclusive",
            )
        return chosen

    def _passed(self, stack: str, chosen: tuple[int, ...], bottom: LayerAverage) -> tuple[int, ...]:
        """The blocks through whose input all relevance passes; all of them if there are none."""
        whole = dict.fromkeys(self.blocks, (0,))
        totals = {i: self._mean({**whole, stack: (i,)}).total() for i in chosen}
        passed = [i for i in chosen if not self._is_off(bottom.total() - totals[i], bottom)]
        return tuple(passed) or chosen

    def _is_off(self, missing: Tensor, bottom: LayerAverage) -> bool:
        """Whether more is missing than rounding explains."""
        scores = bottom.scores.values()
        dtype = next(iter(self.forward.states.values())).dtype
        return is_off(missing, self.forward.goal.value, scores, dtype)

    @cached_property
    def _sink_amounts(self) -> Amounts:
        return _by_account(self.sinks)

    @cached_property
    def _leak_amounts(self) -> Amounts:
        return _by_account(self.leaks)

    def _mean(self, chosen: Mapping[str, tuple[int, ...]]) -> LayerAverage:
        """The mean over some blocks of each stack."""

        def share(booking: Booking) -> float:
            """The share of the chosen blocks that lie below what was booked."""
            place = booking[1]
            if place is None or place.stack not in chosen:
                return 1.0
            own = chosen[place.stack]
            return sum(block <= place.block for block in own) / len(own)

        def weighted(amounts: Amounts) -> dict[str, Tensor]:
            """The sum of each account, (batch,)."""
            return {
                account: booked @ booked.new_tensor([share(booking) for booking in own])
                for account, (own, booked) in amounts.items()
            }

        scores: Scores = {}
        for stack, own in chosen.items():
            read = [one for i in own if (one := self.blocks[stack][i]) is not None]
            scores[stack] = sum(read[1:], read[0]) / len(read)
        for booking, amount in self.token_sinks.items():
            assert booking[1] is not None
            scores[booking[1].stack] = scores[booking[1].stack] + amount * share(booking)
        return LayerAverage(scores, weighted(self._sink_amounts), weighted(self._leak_amounts))


@dataclass(frozen=True)
class LayerAverage:
    """Mean relevance over blocks: scores, (batch, tokens) by stack; sinks and leaks, (batch,)."""

    scores: Scores
    sinks: Mapping[str, Tensor]
    leaks: Mapping[str, Tensor]

    def total(self) -> Tensor:
        """Return the sum of scores, sinks and leaks, (batch,)."""
        parts = [one.sum(1) for one in self.scores.values()]
        parts += [*self.sinks.values(), *self.leaks.values()]
        return sum(parts[1:], parts[0])


def _by_account(bookings: Mapping[Booking, Tensor]) -> Amounts:
    """The bookings of each account, and what was booked, (batch, bookings)."""
    by_account: dict[str, list[Booking]] = {}
    for booking in bookings:
        by_account.setdefault(booking[0], []).append(booking)
    amounts: Amounts = {}
    for account, own in by_account.items():
        device = bookings[own[0]].device  # blocks may be on several
        booked = [bookings[booking].to(device) for booking in own]
        amounts[account] = own, torch.stack(booked, dim=1)
    return amounts


def lower_blocks(blocks: int, share: float) -> range:
    """Return the numbers of the lowest blocks, a share of all and at least one."""
    return range(max(1, round(blocks * share)))


def balanced(
    run: Run,
    *,
    maps: bool = True,
    states: bool = True,
    rules: RuleSet | None = None,
    per_token: bool = False,
    first: int = 0,
    end: int | None = None,
    by_pair: bool = False,
    mix: Mix | None = None,
) -> Balanced:
    """Return relevance at the blocks and attention maps with their gradient, by balanced rules.

    Args:
        run: The model on a batch.
        maps: Read the attention maps and their gradients.
        states: Read the relevance at the input of every block, and book where the rest goes.
        rules: The rules; by default those of LibraGrad.
        per_token: Book constants inside the blocks for each token apart.
        first: The first attention layer that the method reads, counted as in `attentions`.
        end: The layer after the last one.
        by_pair: Count attention layers per pair of stacks.
        mix: What the method makes of a layer; maps of dropped blocks are then dropped too.
    """
    if maps:
        refuse_without_maps(run)
    structure = find_structure(run) if maps else None
    chosen_rules = rules or balanced_rules()

    def record() -> Recording:
        track = states or run.drops_blocks
        trace = Trace(track=track, blocks=BlockRelevance(run) if states else None)
        ledger = run.new_ledger(states, per_token)
        recorder = AttentionRecorder(
            trace, ledger, run.stacks, start_graph=True, **recording_of(run, structure, mix)
        )
        table = chosen_rules.table
        if maps:
            table = {**table, **chosen_rules.recording(recorder.record, recorder.hold)}
        nodes = NodeRecorder(run, trace, ledger) if states and "nodes" in run.keep else None
        return record_forward(run, table, trace, ledger, nodes=nodes, maps=recorder)

    recorded = run.record(("balanced", maps, states, chosen_rules, per_token, mix), record)
    trace, ledger, nodes = recorded.trace, recorded.ledger, recorded.nodes
    recorder = recorded.maps
    assert recorder is not None
    forward = recorded.aim(run)
    if maps and not ledger.counts["attention"]:
        raise missing_operation("attention")
    groups = recorder.layers(structure.layers if structure else None)
    chosen = recorder.choose_layers(groups, first, end, by_pair) if maps else []
    wanted = range(len(groups)) if maps and "gradient" in run.keep else chosen
    sloping = [i for number in wanted for i in groups[number]]
    slopes = gradients_at(
        differentiable_value(forward.goal),
        {
            "states": [*trace.states.values()] if states else [],
            "exits": [*trace.exits.values()] if maps else [],
            "maps": [recorder.places[i] for i in sloping],
            **(nodes.places if nodes else {}),
        },
        keep_graph=run.keeps_graph or ledger.may_mix_up,
    )
    deciding: Mapping[str, Tensor] = {}
    reads: tuple[Reason, ...] = ()
    if maps:
        forward, deciding, reads = with_deciding(run, forward, trace, slopes["exits"])
    slope_of = dict(zip(sloping, slopes["maps"], strict=True))
    every = make_layers(run, forward.layout, recorder, structure, gradient=slope_of)
    relevance = trace.blocks.read(trace.states, slopes["states"]) if trace.blocks else {}
    if states:
        bottom = [one[0] for one in relevance.values() if one[0] is not None]
        book_again_if_mixed_up(ledger, forward.goal.value, [*trace.states.values()], bottom)
    found = Balanced(
        run,
        forward,
        deciding,
        every,
        tuple(every[i] for i in chosen),
        relevance,
        dict(ledger.sinks_by_place),
        dict(ledger.token_sinks),
        dict(ledger.leaks_by_place),
        nodes.read(forward.layout, slopes) if nodes else {},
        _patches(run, chosen_rules.table, trace, slopes["states"]) if states else None,
        reasons=(*reads, *reasons_of(structure, ledger)),
    )
    if not (ledger.hidden and states):
        return found
    return replace(found, leaks={**found.leaks, **found.hidden_losses(" and ".join(ledger.hidden))})


def _patches(run: Run, table: Table, trace: Trace, slopes: list[Tensor]) -> TowerRelevance | None:
    """The relevance of patches, if the run asks for it."""
    return tower_relevance(run, table, run.by_stack(trace.states, slopes))
