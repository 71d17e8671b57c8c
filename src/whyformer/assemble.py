"""The attribution that a method's scores and a capture make together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Layer, Stream
from whyformer.capture.capture import Capture
from whyformer.families import Family
from whyformer.methods import Method


def assemble(
    method: Method,
    options: Mapping[str, Any],
    capture: Capture,
    scores: Tensor,
    name: str,
    family: Family | None,
) -> Attribution:
    """The result, padding zeroed and prefix tokens cut off."""
    prepared, goal, prefix = capture.prepared, capture.goal, capture.prefix
    assert goal is not None
    scores = (scores * capture.mask).cpu()
    output = goal.value.detach().cpu()
    output = output if output.dtype == torch.float64 else output.float()
    sinks = {k: v.cpu() for k, v in capture.ledger.sinks.items()} if capture.ledger else {}
    if prefix and method.promises_sum:
        sinks["prefix"] = scores[:, :prefix].sum(1)
    scores = scores[:, prefix:]
    conservation = None
    if method.promises_sum:
        accounted = scores.sum(1) + sum(sinks.values(), torch.zeros_like(output))
        conservation = accounted / output
    keep = capture.keep
    stream = Stream(
        name=prepared.stream,
        scores=scores,
        mask=capture.mask.cpu()[:, prefix:],
        tokens=prepared.tokens,
        word_ids=prepared.word_ids,
        grid=prepared.grid,
        image=None if prepared.image is None else prepared.image.cpu(),
        pixels=None if capture.pixels is None else capture.pixels.cpu(),
        states=(
            capture.states.cpu()[:, prefix:]
            if "states" in keep and capture.states is not None
            else None
        ),
    )
    return Attribution(
        method=method.name,
        streams={stream.name: stream},
        main=stream.name,
        target=goal.index.cpu(),
        output=output,
        labels=goal.labels,
        conservation=conservation,
        sinks=sinks if method.promises_sum else {},
        layers=_layers(capture),
        maps=_maps(capture, stream.name),
        options={**method.options, **options},
        provenance=_provenance(capture, name, family),
    )


def _layers(capture: Capture) -> tuple[Layer, ...]:
    """What was asked to be kept of each layer; sums of relevance always."""
    wanted = {
        "attention": ("attention",),
        "gradient": ("gradient",),
        "relevance": ("relevance", "entering", "leaving"),
    }
    parts = [part for name in wanted if name in capture.keep for part in wanted[name]]

    def put(layer: Layer) -> Layer:
        kept = {part: getattr(layer, part) for part in ("relevance_sum", *parts)}
        return Layer(**{k: None if v is None else v.cpu() for k, v in kept.items()})

    layers = tuple(put(layer) for layer in capture.layers)
    return layers if any(v is not None for layer in layers for v in vars(layer).values()) else ()


def _maps(capture: Capture, stream: str) -> dict[tuple[str, str], Tensor]:
    if capture.map is None:
        return {}
    return {(stream, stream): capture.map.cpu()[:, capture.prefix :, capture.prefix :]}


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
            package: _version(package) for package in ("whyformer", "torch", "transformers")
        },
        "notes": list(capture.prepared.notes),
    }


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
