"""Relevance of attention maps, token states and pixels: one forward, two backward passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from torch import Tensor

from whyformer.engine.backward import gradients_at, relevances_at
from whyformer.engine.forward import Trace, alias_output, run_forward
from whyformer.engine.layer_building import make_layers
from whyformer.engine.passes.attentions import (
    Attentions,
    reasons_of,
    recording_of,
    refuse_checkpoints,
    refuse_without_maps,
    with_deciding,
)
from whyformer.engine.passes.forward_only import (
    ForwardPass,
    States,
    differentiable_value,
    make_interception,
    states_of,
)
from whyformer.engine.recording import AttentionRecorder, RelevanceSums
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.rules.relevance.switch import Direction, run_without_rule
from whyformer.engine.rules.relevance.table import relevance_table
from whyformer.engine.run import Run
from whyformer.engine.segments import find_layout
from whyformer.engine.state_hooks import state_hooks
from whyformer.engine.structure import find_structure
from whyformer.models.families import Pair
from whyformer.targets.resolve import resolve


@dataclass(frozen=True)
class Relevances(Attentions):
    """Attention layers with their relevance.

    Attributes:
        rules: The rule set that was used, "ours" or "orig".
        state_relevance: Relevance of the token states, (batch, tokens, hidden) by stack; empty if
            relevance stops at the attention maps.
        pixels: Relevance per pixel, (batch, height, width), if relevance reaches pixels.
        rounding: The share of relevance that one rounding step changes, (batch,).
    """

    rules: str = "ours"
    state_relevance: States = field(default_factory=dict)
    pixels: Tensor | None = None
    rounding: Tensor | None = None

    def result(self, scores: Scores, maps: Mapping[Pair, Tensor] | None = None) -> MethodResult:
        """Return scores that were read off these layers as a method's result."""
        result = super().result(scores, maps)
        return replace(result, pixels=self.pixels, rules=self.rules, rounding=self.rounding)


def relevances(
    run: Run,
    rules: str,
    first: int = 0,
    gradient: bool = True,
    reach: str = "attention",
    by_pair: bool = False,
) -> Relevances:
    """Return attention, gradient and relevance of each layer from `first` on.

    Args:
        run: The model on a batch.
        rules: The rule set: "ours" or "orig".
        first: The first layer, counted as in `attentions`.
        gradient: Compute the gradient of the maps too.
        reach: How far down relevance goes: "attention", "states" or "pixels".
        by_pair: Count layers per pair of stacks.
    """
    refuse_without_maps(run)
    refuse_checkpoints(run)
    keeps_gradient, keeps_relevance = "gradient" in run.keep, "relevance" in run.keep
    gradient = gradient or keeps_gradient
    per_block = keeps_relevance and run.stacks.only is not None
    direction = Direction(run.batch.size)
    # The graph begins at the states, so that an addend outside of it is a constant. The backward
    # passes stop at the lowest tensors whose relevance is needed.
    trace = Trace(leaf=run.batch.carrier if reach == "pixels" else None)
    ledger = run.new_ledger()
    structure = find_structure(run)
    recorder = AttentionRecorder(
        trace, ledger, run.stacks, start_graph=False, **recording_of(run, structure)
    )
    table = relevance_table(direction, rules, recorder.record, recorder.hold)
    interception = make_interception(run, table, ledger, partial(run_without_rule, direction))
    hooks = state_hooks(run, trace, ledger)
    output = run_forward(run, trace, interception, hooks, run.batch.arguments)
    # Relevance starts at the output itself, so the target is resolved outside of the rules.
    output, output_pairs = alias_output(output)
    for tensor, _ in output_pairs:
        interception.constant(tensor)  # refuses a tensor that was written into
    goal = resolve(run.target, output, run.module, run.batch)
    states = states_of(run, trace)
    forward, value = ForwardPass(goal, find_layout(run, states), states), differentiable_value(goal)

    groups = recorder.layers(structure.layers if structure else None)
    chosen = recorder.choose_layers(groups, first, by_pair=by_pair)
    every = range(len(groups))
    wanted = every if keeps_relevance or reach != "attention" else chosen
    needed = [i for number in wanted for i in groups[number]]
    sloping = range(len(recorder.maps)) if keeps_gradient else needed if gradient else []
    slopes = gradients_at(
        value,
        {"exits": [*trace.exits.values()], "maps": [recorder.maps[i] for i in sloping]},
        keep_graph=True,
    )
    forward, deciding, reads = with_deciding(run, forward, trace, slopes["exits"])
    sums = RelevanceSums(trace.leaving, ledger, run.stacks.batch_first)
    found = relevances_at(
        value,
        output_pairs,
        direction,
        {
            "maps": [recorder.maps[i] for i in needed],
            "entering": trace.entering if per_block else [],
            "leaving": [*trace.exits.values()] if per_block else [],
            "states": [*trace.states.values()] if reach != "attention" else [],
            "pixels": [trace.arguments[trace.leaf]] if trace.leaf else [],
        },
    )
    only = run.stacks.only is not None
    layers = make_layers(
        run,
        forward.layout,
        recorder,
        structure,
        sums={n: sums.above(n, len(groups)) for n in every} if only else {},
        states={
            "entering": _by_layer(run, every, found["entering"]),
            "leaving": _by_layer(run, [every[-1]], found["leaving"]),
        },
        gradient=dict(zip(sloping, slopes["maps"], strict=True)),
        relevance=dict(zip(needed, found["maps"], strict=True)),
    )
    return Relevances(
        run,
        forward,
        deciding,
        layers,
        tuple(layers[i] for i in chosen),
        rules,
        run.by_stack(trace.states, found["states"]) if found["states"] else {},
        wide(found["pixels"][0]).sum(1) if found["pixels"] else None,
        direction.rounding.worst,
        # Relevance that reaches the states does not walk along the maps.
        reasons=(*reads, *reasons_of(structure if reach == "attention" else None, ledger)),
    )


def _by_layer(run: Run, layers: Sequence[int], found: Sequence[Tensor]) -> dict[int, Tensor]:
    """Relevance of states, (batch, tokens, hidden), by the number of their layer."""
    return {i: run.put_batch_first(one) for i, one in zip(layers, found, strict=False)}
