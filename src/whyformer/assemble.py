"""The attribution that a method's scores and a capture make together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Layer, Stream
from whyformer.engine.capture import Capture, Scores
from whyformer.engine.segments import Segment
from whyformer.engine.streamed_layers import AnyLayer
from whyformer.methods import Method
from whyformer.models.families import Family, Pair


def assemble(
    method: Method,
    options: Mapping[str, Any],
    capture: Capture,
    scores: Scores,
    name: str,
    family: Family | None,
) -> Attribution:
    """The result, padding zeroed and the tokens cut off that no stream has."""
    goal = capture.goal
    assert goal is not None
    output = goal.value.detach().cpu()
    output = output if output.dtype == torch.float64 else output.float()
    scores = {
        stack: (scores[stack] * mask).cpu() if stack in scores else torch.zeros(mask.shape)
        for stack, mask in capture.masks.items()
    }
    streams = {
        segment.stream: _stream(capture, stack, segment, scores[stack])
        for stack, segments in capture.segments.items()
        for segment in segments
    }
    sinks = {k: v.cpu() for k, v in capture.ledger.sinks.items()} if capture.ledger else {}
    conservation = None
    if method.promises_sum:
        shown = sum((stream.scores.sum(1) for stream in streams.values()), torch.zeros(()))
        handed_out = sum((found.sum(1) for found in scores.values()), torch.zeros(()))
        if any(_has_prefix(capture, stack) for stack in capture.segments):
            sinks["prefix"] = handed_out - shown
        accounted = shown + sum(sinks.values(), torch.zeros_like(output))
        conservation = accounted / output
    return Attribution(
        method=method.name,
        streams=_ordered(streams, capture.prepared.stream),
        main=capture.prepared.stream,
        target=goal.index.cpu(),
        output=output,
        labels=goal.labels,
        conservation=conservation,
        sinks=sinks if method.promises_sum else {},
        layers=_layers(capture),
        maps=_maps(capture, len(streams) > 1),
        options={**method.options, **options},
        provenance=_provenance(capture, name, family),
    )


def _stream(capture: Capture, stack: str, segment: Segment, scores: Tensor) -> Stream:
    """One stream's part of a stack."""
    inputs = capture.prepared.of(segment.stream)
    count = segment.stop - segment.start
    named = None if inputs is None else inputs.tokens
    if inputs is None and segment.stream == "queries":
        named = (tuple(f"query {i}" for i in range(count)),) * capture.prepared.size
    image = None if inputs is None else inputs.image
    pixels = capture.pixels if image is not None else None
    states = capture.states.get(stack) if "states" in capture.keep else None
    deciding = capture.deciding.get(stack)
    return Stream(
        name=segment.stream,
        scores=scores[:, segment.columns],
        mask=segment.mask.cpu(),
        tokens=named,
        word_ids=None if inputs is None else inputs.word_ids,
        grid=segment.grid,
        image=None if image is None else image.cpu(),
        pixels=None if pixels is None else pixels.cpu(),
        states=None if states is None else states.cpu()[:, segment.columns],
        deciding=None if deciding is None else deciding.cpu()[:, segment.columns] != 0,
    )


def _has_prefix(capture: Capture, stack: str) -> bool:
    """Whether some of a stack's tokens are no stream's."""
    shown = sum(segment.stop - segment.start for segment in capture.segments[stack])
    return shown != capture.tokens[stack]


def _ordered(streams: dict[str, Stream], main: str) -> dict[str, Stream]:
    return {main: streams[main], **streams}


def _layers(capture: Capture) -> tuple[Layer, ...]:
    """What was asked to be kept of each layer; sums of relevance always."""
    wanted = {
        "attention": ("attention",),
        "gradient": ("gradient",),
        "relevance": ("relevance", "entering", "leaving"),
    }
    parts = [part for name in wanted if name in capture.keep for part in wanted[name]]

    def put(layer: AnyLayer) -> Layer:
        kept = {part: getattr(layer, part) for part in ("relevance_sum", *parts)}
        return Layer(
            **{k: None if v is None else v.cpu() for k, v in kept.items()},
            asking=layer.asking,
            answering=layer.answering,
            together=layer.together,
        )

    layers = tuple(put(layer) for layer in capture.layers)
    tensors = (v for layer in layers for v in vars(layer).values() if isinstance(v, Tensor))
    return layers if next(tensors, None) is not None else ()


def _maps(capture: Capture, several: bool) -> dict[Pair, Tensor]:
    """Relevancies from stream to stream, where several are explained or the caller wants them."""
    if not (several or "maps" in capture.keep):
        return {}
    return {
        (asking.stream, answering.stream): relevancy[:, asking.columns, answering.columns].cpu()
        for (a, b), relevancy in capture.maps.items()
        for asking in capture.segments.get(a, ())
        for answering in capture.segments.get(b, ())
    }


def _provenance(capture: Capture, name: str, family: Family | None) -> dict[str, Any]:
    """What was run, in words that JSON can keep."""
    parameter = next(capture.module.parameters(), None)
    return {
        "model": name,
        "model_class": type(capture.module).__name__,
        "family": family.name if family else "default",
        "dtype": str(parameter.dtype).removeprefix("torch.") if parameter is not None else "",
        "device": str(parameter.device) if parameter is not None else "cpu",
        "versions": {
            package: version_of(package) for package in ("whyformer", "torch", "transformers")
        },
        "notes": list(capture.prepared.notes),
    }


@cache
def version_of(package: str) -> str:
    """The installed version of a package, "unknown" where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
