"""Attention maps and their gradients: one forward pass, one backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution import Reason
from whyformer.engine.backward import gradients_at
from whyformer.engine.deciding_tokens import find_deciding
from whyformer.engine.forward import Trace
from whyformer.engine.hidden import cut_reasons
from whyformer.engine.layer_building import make_layers
from whyformer.engine.padding_reads import padding_reads
from whyformer.engine.passes.forward_only import (
    ForwardPass,
    Recording,
    differentiable_value,
    record_forward,
)
from whyformer.engine.recording import AttentionRecorder
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.rules.attention_maps import recording_table
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.run import Run
from whyformer.engine.segments import TokenLayout
from whyformer.engine.streamed_layers import AnyLayer, Mix
from whyformer.engine.structure import Structure, find_structure
from whyformer.errors import OptionError, UnsuitableMethodError
from whyformer.models.families import Pair


@dataclass(frozen=True)
class Attentions:
    """The attention layers of a run.

    Attributes:
        run: The model on a batch.
        forward: The explained value, and whose tokens each stack holds.
        deciding: Weights of the tokens that the head reads, (batch, tokens) by stack.
        every: All layers, in the order they ran.
        layers: The layers that the method reads, in the order they ran.
        reasons: What the attention maps do not show.
    """

    run: Run
    forward: ForwardPass
    deciding: Mapping[str, Tensor]
    every: tuple[AnyLayer, ...]
    layers: tuple[AnyLayer, ...]
    reasons: tuple[Reason, ...] = field(default=(), kw_only=True)

    @property
    def layout(self) -> TokenLayout:
        """Whose tokens each stack holds."""
        return self.forward.layout

    def keeps_maps(self, stack: str) -> bool:
        """Return whether a stack's whole relevancy is needed: by the user, or between streams."""
        return "maps" in self.run.keep or len(self.layout.segments.get(stack, ())) > 1

    def result(self, scores: Scores, maps: Mapping[Pair, Tensor] | None = None) -> MethodResult:
        """Return scores that were read off these layers as a method's result."""
        return MethodResult(
            self.forward,
            scores,
            maps=dict(maps or {}),
            layers=self.every,
            deciding=self.deciding,
            reasons=self.reasons,
        )


def attentions(
    run: Run,
    gradient: bool = False,
    first: int = 0,
    end: int | None = None,
    by_pair: bool = False,
    mix: Mix | None = None,
) -> Attentions:
    """Return the attention of layers `first` to `end`, with its gradient if `gradient`.

    Layers are counted per query stack, or per pair of stacks if `by_pair`. The graph begins at
    the lowest attention map, so nothing below it costs anything. If blocks are dropped, the maps
    are too, as soon as their mixing by `mix` is there.
    """
    refuse_without_maps(run)
    if not gradient:
        refuse_checkpoints(run)
    keeps_gradient = "gradient" in run.keep
    gradient = gradient or keeps_gradient
    structure = find_structure(run)

    def record() -> Recording:
        # Blocks are dropped from where the graph begins, so it begins at the states.
        trace, ledger = Trace(track=run.drops_blocks), run.new_ledger()
        recorder = AttentionRecorder(
            trace, ledger, run.stacks, start_graph=gradient, **recording_of(run, structure, mix)
        )
        table = recording_table(recorder.record, recorder.hold)
        return record_forward(run, table, trace, ledger, maps=recorder)

    recorded = run.record(("attentions", gradient, mix), record)
    trace, ledger, recorder = recorded.trace, recorded.ledger, recorded.maps
    assert recorder is not None
    forward = recorded.aim(run)
    groups = structure.layers if structure else None
    chosen = recorder.choose_layers(groups, first, end, by_pair)
    sloping: Sequence[int] = []
    if gradient:
        wanted = range(len(recorder.layers(groups))) if keeps_gradient else chosen
        sloping = [i for number in wanted for i in recorder.layers(groups)[number]]
    slopes = gradients_at(
        differentiable_value(forward.goal),
        {"exits": [*trace.exits.values()], "maps": [recorder.places[i] for i in sloping]},
        run.keeps_graph,
    )
    forward, deciding, reads = with_deciding(run, forward, trace, slopes["exits"])
    slope_of = dict(zip(sloping, slopes["maps"], strict=True))
    every = make_layers(run, forward.layout, recorder, structure, gradient=slope_of)
    layers = tuple(every[i] for i in chosen)
    return Attentions(
        run, forward, deciding, every, layers, reasons=(*reads, *reasons_of(structure, ledger))
    )


def refuse_without_maps(run: Run) -> None:
    """Raise UnsuitableMethodError if the model's attention maps cannot be chained."""
    if run.family is None or not run.family.without_maps:
        return
    if run.family.found:
        raise UnsuitableMethodError(
            f"{run.name} has several token streams that no family declares:"
            f" {run.family.without_maps}",
            unavailable="maps",
            remedy="Declare its streams once with whyformer.models.families.declare",
        )
    raise UnsuitableMethodError(
        f"{run.name} has no attention maps between all its tokens: {run.family.without_maps}",
        unavailable="maps",
    )


def refuse_checkpoints(run: Run) -> None:
    """Raise OptionError if a pass that builds no block again should drop the blocks."""
    if run.drops_blocks:
        raise OptionError(
            "memory='checkpoint' drops the attention maps that this method reads",
            argument="memory",
            remedy="Use memory='streamed', or a method that reads no maps, such as 'libragrad'",
        )


def recording_of(run: Run, structure: Structure | None, mix: Mix | None = None) -> dict[str, Any]:
    """Return the settings of the recorder: how maps are stored, and which have a known order."""
    if structure is None:
        return {"memory": run.map_memory, "mix": mix}
    if structure.is_joint:
        # Maps that ran side by side are joined, so they must be held.
        return {"memory": "maps", "ordered": structure.ordered}
    return {"memory": run.map_memory, "ordered": structure.ordered, "mix": mix}


def reasons_of(structure: Structure | None, ledger: Ledger) -> tuple[Reason, ...]:
    """Return what the maps do not show, and values without gradients that a pass used.

    The search of a structure follows such values too, further down than a pass over maps.
    """
    return cut_reasons(ledger) if structure is None else structure.reasons


def with_deciding(
    run: Run, forward: ForwardPass, trace: Trace, slopes: Sequence[Tensor]
) -> tuple[ForwardPass, dict[str, Tensor], tuple[Reason, ...]]:
    """Return the pass with the stacks that only the exits show, the deciding tokens, and doubts.

    `slopes` is the gradient of the explained value at each stack's exit.
    """
    gradients = run.by_stack(trace.exits, slopes)
    layout = forward.layout.add_exits(
        {
            name: torch.ones(gradient.shape[:2], dtype=torch.bool, device=gradient.device)
            for name, gradient in gradients.items()
        }
    )
    for name, gradient in gradients.items():
        if gradient.shape[1] != layout.counts[name]:
            raise UnsuitableMethodError(
                f"{layout.counts[name]} tokens enter the blocks of {run.name} and"
                f" {gradient.shape[1]} leave: it merges tokens, so its attention maps do not chain",
                unavailable="maps",
            )
    return (
        replace(forward, layout=layout),
        find_deciding(run.deciding, gradients, layout.masks),
        padding_reads(run, gradients, layout.masks),
    )
