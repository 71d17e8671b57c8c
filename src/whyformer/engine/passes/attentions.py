"""Attention maps and their gradients: one forward pass, one backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from whyformer.attribution import Layer
from whyformer.engine.backward import gradients_at
from whyformer.engine.deciding_tokens import find_deciding
from whyformer.engine.forward import Trace
from whyformer.engine.passes.forward_only import ForwardPass, differentiable_value, intercept
from whyformer.engine.recording import AttentionRecorder
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.rules.attention_maps import recording_table
from whyformer.engine.rules.operations.fused_attention import wide_call
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run
from whyformer.engine.segments import TokenLayout
from whyformer.engine.streamed_layers import AnyLayer, StreamedLayer
from whyformer.errors import UnsuitableMethodError
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
    """

    run: Run
    forward: ForwardPass
    deciding: Mapping[str, Tensor]
    every: tuple[AnyLayer, ...]
    layers: tuple[AnyLayer, ...]

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
        )


def attentions(
    run: Run,
    gradient: bool = False,
    first: int = 0,
    end: int | None = None,
    by_pair: bool = False,
) -> Attentions:
    """Return the attention of layers `first` to `end`, with its gradient if `gradient`.

    Layers are counted per query stack, or per pair of stacks if `by_pair`. The graph begins at
    the lowest attention map, so nothing below it costs anything.
    """
    keeps_gradient = "gradient" in run.keep
    gradient = gradient or keeps_gradient
    trace, ledger = Trace(track=False), run.new_ledger()
    recorder = AttentionRecorder(
        trace, ledger, run.stacks, start_graph=gradient, memory=run.map_memory
    )
    table = recording_table(recorder.record, recorder.hold)
    forward = intercept(run, table, trace, ledger)
    chosen = recorder.choose_layers(first, end, by_pair)
    sloping = range(len(recorder.maps)) if keeps_gradient else chosen if gradient else []
    slopes = gradients_at(
        differentiable_value(forward.goal),
        {"exits": [*trace.exits.values()], "maps": [recorder.maps[i] for i in sloping]},
    )
    forward, deciding = with_deciding(run, forward, trace, slopes["exits"])
    by_layer = dict(zip(sloping, slopes["maps"], strict=True))
    every = tuple(
        make_layer(run, forward.layout, recorder, i, gradient=by_layer.get(i))
        for i in range(len(recorder.maps))
    )
    return Attentions(run, forward, deciding, every, tuple(every[i] for i in chosen))


def with_deciding(
    run: Run, forward: ForwardPass, trace: Trace, slopes: Sequence[Tensor]
) -> tuple[ForwardPass, dict[str, Tensor]]:
    """Return the pass with the stacks that only the exits show, and the deciding tokens.

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
    return replace(forward, layout=layout), find_deciding(run.deciding, gradients, layout.masks)


def make_layer(
    run: Run,
    layout: TokenLayout,
    recorder: AttentionRecorder,
    i: int,
    relevance_sum: Tensor | None = None,
    states: Mapping[str, Tensor] | None = None,
    **maps: Tensor | None,
) -> AnyLayer:
    """Return one layer: its maps as (batch, head, query, key), or what they are computed from.

    `maps` are the gradient and the relevance of the map, `states` those of the block.
    """
    (asking, answering), together = recorder.pairs[i]
    call = recorder.calls[i]
    if call is not None:
        shape = (call.query.shape[-2], call.key.shape[-2])
        _check_map(run, layout, shape, asking, answering)
        return StreamedLayer(
            run.batch.size,
            wide_call(call),
            wide(recorder.maps[i].detach()),
            relevance_sum=relevance_sum,
            asking=asking,
            answering=answering,
            together=together,
            **{f"output_{part}": None if m is None else wide(m) for part, m in maps.items()},
        )
    by_head = partial(_split_heads, run, layout, asking=asking, answering=answering)
    return Layer(
        attention=by_head(recorder.maps[i].detach()),
        relevance_sum=relevance_sum,
        asking=asking,
        answering=answering,
        together=together,
        **(states or {}),
        **{part: None if m is None else by_head(m) for part, m in maps.items()},
    )


def _split_heads(
    run: Run, layout: TokenLayout, attention: Tensor, asking: str, answering: str
) -> Tensor:
    """Attention as (batch, head, query, key), whatever axes the model folded together."""
    shape = _check_map(run, layout, tuple(attention.shape), asking, answering)
    return wide(attention).reshape(run.batch.size, -1, *shape)


def _check_map(
    run: Run, layout: TokenLayout, found: tuple[int, ...], asking: str, answering: str
) -> tuple[int, int]:
    """(queries, keys) of a map; raise ModelError if they are not the tokens of these stacks."""
    shape = (layout.counts[asking], layout.counts[answering])
    if found[-2:] != shape:
        tokens = (
            f"the {shape[0]} tokens of the model's one stream"
            if run.stacks.only
            else f"the {shape[0]} query tokens of '{asking}' and {shape[1]} keys of '{answering}'"
        )
        raise UnsuitableMethodError(
            f"an attention map of shape {found} does not fit {tokens}: whyformer cannot tell"
            " whose tokens it mixes",
            unavailable="maps",
        )
    return shape
