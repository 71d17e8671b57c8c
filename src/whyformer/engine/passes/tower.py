"""Relevance through the encoder of images: from soft tokens to the patches that enter it.

The language model's pass ends at the states that enter its first block. At those of an image's
tokens, state x gradient is their relevance. A second pass runs the model from the encoder's first
block to there, under the same rules, and takes this relevance as the value to explain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.blocks import find_blocks
from whyformer.engine.forward import Hook, Trace, run_forward
from whyformer.engine.passes.forward_only import States, Table, make_interception
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run
from whyformer.engine.stacks import Stacks, Track
from whyformer.engine.state_hooks import first_floating
from whyformer.errors import ModelError, OptionError

PREFIX = "prefix"  # the sink of class and register tokens


@dataclass(frozen=True)
class TowerRelevance:
    """Relevance of patches.

    Attributes:
        scores: (batch, patches) by stream.
        sinks: Relevance of the encoder's constants, and of its own tokens, (batch,) by name.
        leaks: Relevance lost in operations without a rule, (batch,) by operation.
    """

    scores: Mapping[str, Tensor]
    sinks: Mapping[str, Tensor]
    leaks: Mapping[str, Tensor]


@dataclass(frozen=True)
class _Recording:
    """One sample's pass: the states that enter the encoder, and those of the language model."""

    leaf: Tensor
    entered: Tensor
    ledger: Ledger


class _Reached(BaseException):
    """Ends a forward pass where the language model begins; no error."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


def tower_relevance(run: Run, table: Table, slopes: States) -> TowerRelevance | None:
    """Return the relevance of patches; None if the run does not ask for it.

    Args:
        run: The model on a batch.
        table: {torch function: rule}, those of the language model's pass.
        slopes: The gradient at the language model's token states, (batch, tokens, hidden).
    """
    soft = run.batch.soft
    if run.image_scale == "tokens" or soft is None or soft.patches is None:
        return None
    samples = range(run.batch.size)
    if run.batch.size > 1 and not run.batch.can_take_rows(run.module):
        raise OptionError(
            f"image_scale={run.image_scale!r} explains one sample after the other, and it is not"
            " certain which part of the inputs belongs to which sample",
            argument="image_scale",
            remedy="Pass one sample at a time, or leave out image_scale=",
        )
    recordings = run.record(("tower", table), lambda: [_record(run, table, i) for i in samples])
    slope = slopes[_track(run).name]
    names = {one.name for one in soft.patches.streams}
    found = []
    for sample, recording in enumerate(recordings):
        columns = torch.zeros(slope.shape[1], dtype=torch.bool, device=slope.device)
        for stream in soft.streams:
            own = stream.places[sample]
            if stream.name in names:
                columns[own[own >= 0].to(columns.device)] = True
        start = slope[sample] * columns.unsqueeze(1)
        found.append(_explain(run, recording, start, sample))
    return _merge(found)


def _record(run: Run, table: Table, sample: int) -> _Recording | None:
    """Run one sample up to the language model's first block; None if it has no image."""
    soft = run.batch.soft
    assert soft is not None
    assert soft.patches is not None
    if not soft.patches.counts[sample]:
        return None
    batch = run.batch if run.batch.size == 1 else run.batch.take([sample])
    alone = replace(run, batch=batch, stacks=Stacks({}), tape=None)
    ledger = alone.new_ledger(conserve=True)
    leaves: list[Tensor] = []

    def enter(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        states = first_floating(args, kwargs)
        if states is None:
            return None
        ledger.inside = True
        leaves.append(tags.add_tag(states.detach(), tags.LEAF).requires_grad_())
        new = leaves[-1].clone()  # some blocks write into their input
        return tuple(new if a is states else a for a in args), {
            key: new if value is states else value for key, value in kwargs.items()
        }

    def arrive(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = first_floating(args, kwargs)
        if states is not None:
            raise _Reached(states)

    track = _track(run)
    first = find_blocks(run.module, soft.patches.blocks)[0]
    hooks: list[Hook] = [(first, "before", enter), (track.chain[0], "before", arrive)]
    interception = make_interception(alone, table, ledger)
    try:
        run_forward(alone, Trace(), interception, hooks, batch.arguments)
    except _Reached as reached:
        states = reached.states
    else:
        raise _refusal(run, "its language model read no tokens")
    if len(leaves) != 1 or not states.requires_grad:
        times = f"its image encoder {soft.patches.blocks!r} ran {len(leaves)} times for one sample"
        raise _refusal(run, times)
    if leaves[0].shape[:-1].numel() != soft.patches.counts[sample]:
        raise _refusal(
            run,
            f"{leaves[0].shape[:-1].numel()} states enter its image encoder, where"
            f" {soft.patches.counts[sample]} patches were expected",
        )
    return _Recording(leaves[0], states, ledger)


def _track(run: Run) -> Track:
    """The stack that reads the soft tokens."""
    tracks = run.stacks.tracks.values()
    return next(track for track in tracks if run.batch.stream in track.stack.streams)


def _explain(run: Run, recording: _Recording | None, start: Tensor, sample: int) -> TowerRelevance:
    """The relevance of one sample's patches, (1, patches), and its sinks, (1,)."""
    soft = run.batch.soft
    assert soft is not None
    assert soft.patches is not None
    streams = [one.take([sample]) for one in soft.patches.streams]
    none = torch.zeros(1, dtype=wide(start).dtype, device=start.device)
    if recording is None:
        return TowerRelevance({s.name: s.take_columns(none[None, :]) for s in streams}, {}, {})
    ledger = recording.ledger
    ledger.clear()
    entered = wide(run.stacks.axes.to_tokens(recording.entered, 1))
    value = (entered * wide(start).unsqueeze(0)).sum().reshape(1)
    (slope,) = torch.autograd.grad(value, recording.leaf, retain_graph=run.keeps_graph)
    relevance = (wide(recording.leaf.detach()) * wide(slope)).sum(-1).reshape(1, -1)
    ledger.book_hidden(value, [relevance])
    scores = {one.name: one.take_columns(relevance) for one in streams}
    placed = sum((one.sum(1) for one in scores.values()), torch.zeros_like(none))
    sinks = {**ledger.sinks, PREFIX: relevance.sum(1) - placed}
    return TowerRelevance(scores, sinks, dict(ledger.leaks))


def _merge(found: list[TowerRelevance]) -> TowerRelevance:
    """The samples one below the other; what a sample does not have is 0."""

    def join(parts: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        names = dict.fromkeys(name for part in parts for name in part)
        return {
            name: torch.cat([part.get(name, torch.zeros_like(_any(parts, name))) for part in parts])
            for name in names
        }

    return TowerRelevance(
        join([one.scores for one in found]),
        join([one.sinks for one in found]),
        join([one.leaks for one in found]),
    )


def _any(parts: list[Mapping[str, Tensor]], name: str) -> Tensor:
    return next(part[name] for part in parts if name in part)


def _refusal(run: Run, why: str) -> ModelError:
    return ModelError(
        f"relevance cannot be followed to the patches of {run.name}: {why}",
        argument="image_scale",
        remedy="Leave out image_scale=",
    )
