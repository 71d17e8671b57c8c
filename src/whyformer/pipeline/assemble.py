"""Assemble an `Attribution` from a run and a method's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Layer, Stream
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.engine.segments import Segment, TokenLayout
from whyformer.engine.streamed_layers import AnyLayer
from whyformer.methods import Method, methods
from whyformer.models.families import Pair
from whyformer.models.load import Loaded
from whyformer.models.versions import version_of
from whyformer.pipeline.image_scales import with_patches
from whyformer.pipeline.request import Request
from whyformer.pipeline.soft_streams import split_map, split_stream

# What each name in `keep` holds of a layer.
_LAYER_PARTS = {
    "attention": ("attention",),
    "gradient": ("gradient",),
    "relevance": ("relevance", "entering", "leaving"),
}


def assemble(request: Request, loaded: Loaded, run: Run, result: MethodResult) -> Attribution:
    """Return the attribution: padding is zeroed, tokens that no stream has are cut off."""
    choice = result.choice
    method, goal, layout = request.method, result.forward.goal, result.forward.layout
    output = goal.value.detach().cpu()
    output = output if output.dtype == torch.float64 else output.float()
    scores = {
        stack: (result.scores[stack] * mask).cpu()
        if stack in result.scores
        else torch.zeros(mask.shape)
        for stack, mask in layout.masks.items()
    }
    streams = {
        name: stream
        for stack, segments in layout.segments.items()
        for segment in segments
        for name, stream in _streams(method, run, result, stack, segment, scores[stack]).items()
    }
    sinks: dict[str, Tensor] = {}
    conservation = None
    if method.promises_sum:
        sinks = {name: sink.cpu() for name, sink in result.sinks.items()}
        in_streams = sum((stream.scores.sum(1) for stream in streams.values()), torch.zeros(()))
        total = sum((found.sum(1) for found in scores.values()), torch.zeros(()))
        soft = run.batch.soft
        if any(_has_prefix(layout, stack) for stack in layout.segments) or (soft and soft.leftover):
            sinks["prefix"] = total - in_streams
    streams, with_tower = with_patches(streams, sinks, run, result)
    if method.promises_sum:
        sinks = with_tower
        in_streams = sum((stream.scores.sum(1) for stream in streams.values()), torch.zeros(()))
        conservation = (in_streams + sum(sinks.values(), torch.zeros_like(output))) / output
    main = run.batch.stream
    return Attribution(
        method=choice.method if choice else method.name,
        streams={main: streams[main], **streams},
        main=main,
        target=goal.index.cpu(),
        output=output,
        labels=goal.labels,
        conservation=conservation,
        probability=goal.probability,
        sinks=sinks,
        layers=_layers(run, result),
        maps=_maps(run, result, len(streams) > 1),
        nodes={stack: nodes.cpu() for stack, nodes in result.nodes.items()},
        options=_options(choice.method, choice.options)
        if choice
        else _options(method.name, request.options),
        provenance=_provenance(loaded, run, _notes(request, result)),
    )


def _streams(
    method: Method, run: Run, result: MethodResult, stack: str, segment: Segment, scores: Tensor
) -> dict[str, Stream]:
    """The `Stream` of a segment, and those at its placeholders, by name."""
    whole = _stream(run, result, stack, segment, scores)
    if run.batch.soft is None or segment.stream != run.batch.stream:
        return {whole.name: whole}
    return split_stream(whole, run.batch.soft, method)


def _stream(run: Run, result: MethodResult, stack: str, segment: Segment, scores: Tensor) -> Stream:
    """The `Stream` of one segment of a stack; `scores` is (batch, tokens) of the whole stack."""
    inputs = run.batch.of(segment.stream)
    tokens = None if inputs is None else inputs.tokens
    if inputs is None and segment.stream == "queries":
        tokens = (tuple(f"query {i}" for i in range(segment.count)),) * run.batch.size
    image = None if inputs is None else inputs.image
    pixels = result.pixels if image is not None else None
    states = result.forward.states.get(stack) if "states" in run.keep else None
    deciding = result.deciding.get(stack)
    errors = (result.errors or {}).get(stack)
    return Stream(
        name=segment.stream,
        scores=scores[:, segment.columns],
        mask=segment.mask.cpu(),
        tokens=tokens,
        word_ids=None if inputs is None else inputs.word_ids,
        grid=segment.grid,
        image=None if image is None else image.cpu(),
        pixels=None if pixels is None else pixels.cpu(),
        states=None if states is None else states.cpu()[:, segment.columns],
        deciding=None if deciding is None else deciding.cpu()[:, segment.columns] != 0,
        errors=None if errors is None else errors.cpu()[:, segment.columns],
    )


def _has_prefix(layout: TokenLayout, stack: str) -> bool:
    """Whether some of a stack's tokens belong to no stream."""
    in_streams = sum(segment.count for segment in layout.segments[stack])
    return in_streams != layout.counts[stack]


def _layers(run: Run, result: MethodResult) -> tuple[Layer, ...]:
    """The layers with the parts that the user keeps; sums of relevance are always kept."""
    parts = [part for name, parts in _LAYER_PARTS.items() if name in run.keep for part in parts]

    def keep_parts(layer: AnyLayer) -> Layer:
        kept = {part: getattr(layer, part) for part in ("relevance_sum", *parts)}
        return Layer(
            **{k: None if v is None else v.cpu() for k, v in kept.items()},
            asking=layer.asking,
            answering=layer.answering,
            together=layer.together,
        )

    layers = tuple(keep_parts(layer) for layer in result.layers)
    has_tensors = any(isinstance(v, Tensor) for layer in layers for v in vars(layer).values())
    return layers if has_tensors else ()


def _maps(run: Run, result: MethodResult, several: bool) -> dict[Pair, Tensor]:
    """Relevancy from stream to stream, if there are several streams or the user keeps it."""
    if not (several or "maps" in run.keep):
        return {}
    segments, soft = result.forward.layout.segments, run.batch.soft
    found = {
        (query.stream, key.stream): relevancy[:, query.columns][:, :, key.columns].cpu()
        for (a, b), relevancy in result.maps.items()
        for query in segments.get(a, ())
        for key in segments.get(b, ())
    }
    if soft is None:
        return found
    main = run.batch.stream
    split = [split_map(value, *pair, main, soft) for pair, value in found.items()]
    return {pair: value for maps in split for pair, value in maps.items()}


def _options(method: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The chosen options and the defaults of the others."""
    return {**methods[method].options, **chosen}


def _notes(request: Request, result: MethodResult) -> tuple[str, ...]:
    """The method's notes; first which method `auto` chose, and why."""
    if result.choice is None:
        return result.notes
    choice = f"{request.method.name} chose {result.choice.method} ({result.choice.why})"
    return (choice, *result.notes)


def _provenance(loaded: Loaded, run: Run, notes: tuple[str, ...]) -> dict[str, Any]:
    """Model, device, versions and notes, as values that JSON can store."""
    parameter = next(run.module.parameters(), None)
    return {
        "model": loaded.name,
        "model_class": run.name,
        "family": run.family.name if run.family else "default",
        "dtype": str(parameter.dtype).removeprefix("torch.") if parameter is not None else "",
        "device": str(parameter.device) if parameter is not None else "cpu",
        "versions": {
            package: version_of(package) for package in ("whyformer", "torch", "transformers")
        },
        "notes": [*run.batch.notes, *notes],
    }
