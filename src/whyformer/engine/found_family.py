"""Streams that were found by what ran, as a family: how arguments are read, and the stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from whyformer.engine.blocks import Chain
from whyformer.inputs.images import patch_of
from whyformer.models.families import Family, Source, Stack
from whyformer.models.signature import forward_of

# The stream of each argument; every other argument is "tokens".
STREAMS = {
    "input_ids": "text",
    "inputs_embeds": "text",
    "pixel_values": "image",
    "pixel_values_videos": "image",
    "visual_feats": "image",
    "visual_embeds": "image",
    "input_features": "audio",
    "input_values": "audio",
    "decoder_input_ids": "generated",
    "decoder_inputs_embeds": "generated",
    "future_values": "generated",
}
MAIN = ("source", "text", "image", "audio", "tokens")  # the first of these is the main stream
UNKNOWN_MAPS = "whyformer cannot tell whose tokens each of its attention maps mixes"
MOST_PREFIX = 8  # class and register tokens before an image's patches


@dataclass(frozen=True)
class Home:
    """A chain of blocks that the tokens of some arguments enter."""

    chain: Chain
    counts: Mapping[str, int]  # how many tokens each argument has, in their order
    own: tuple[int, int] = (0, 0)  # the model's own tokens before and after these
    crosses: bool = False  # whether its blocks read the states of other homes
    alone: bool = False  # whether all attention from its first block on is in its blocks


def is_ids(value: Tensor) -> bool:
    """Return whether an argument is ids of tokens, (batch, tokens)."""
    return not value.is_floating_point() and value.ndim == 2


def make_family(module: nn.Module, arguments: Mapping[str, Any], homes: Sequence[Home]) -> Family:
    """Return the family of one model on one kind of inputs."""
    names = _stream_names([name for home in homes for name in home.counts])
    sources: list[Source] = []
    prefix = 0
    for home in homes:
        for name in home.counts:
            source, before = _source(module, arguments, home, name, names[name])
            sources.append(source)
            prefix = prefix or before
    stacks = [
        Stack(
            tuple(names[name] for name in home.counts),
            leaves=home.chain.exit,
            paths=home.chain.blocks,
            whole=home.chain.whole,
            crosses=home.crosses,
            own=home.own,
            merged=home.alone,
        )
        for home in homes
    ]
    streams = [source.stream for source in sources]
    return Family(
        name="default",
        stream=next((one for one in MAIN if one in streams), streams[0]),
        sources=tuple(sources),
        stacks=tuple(stacks),
        prefix_tokens=lambda config: prefix,
        without_maps="" if all(home.alone for home in homes) else UNKNOWN_MAPS,
        found=True,
    )


def _stream_names(carriers: Sequence[str]) -> dict[str, str]:
    """The stream of each argument; an argument whose stream another one has keeps its own name."""
    names: dict[str, str] = {}
    for carrier in carriers:
        stream = STREAMS.get(carrier, "tokens")
        names[carrier] = carrier if stream in names.values() else stream
    writes = "generated" in names.values()
    return {k: "source" if v == "text" and writes else v for k, v in names.items()}


def _source(
    module: nn.Module, arguments: Mapping[str, Any], home: Home, name: str, stream: str
) -> tuple[Source, int]:
    """How an argument is read, and how many tokens come before an image's patches."""
    value: Tensor = arguments[name]
    if is_ids(value):
        mask = "decoder_attention_mask" if name.startswith("decoder_") else "attention_mask"
        passed = arguments.get(mask)
        fits = isinstance(passed, Tensor) and passed.shape == value.shape
        takes = passed is None and forward_of(module).takes(mask)
        own = mask if fits or takes else None
        return Source(stream, name, mask=own, optional=stream == "generated"), 0
    tokens = home.counts[name]
    grid = _grid(module, home, value) if value.ndim == 4 else None
    if grid is None or not 0 <= tokens - grid[0] * grid[1] <= MOST_PREFIX:
        return Source(stream, name, kind="numbers", tokens=tokens), 0
    found = Source(stream, name, kind="numbers", tokens=tokens, grid=lambda config, shape: grid)
    return found, tokens - grid[0] * grid[1]


def _grid(module: nn.Module, home: Home, pixels: Tensor) -> tuple[int, int] | None:
    """(rows, columns) of an image's patches, by the innermost part that knows their size."""
    steps = home.chain.blocks[0].split(".")
    for end in range(len(steps) - 1, -1, -1):
        patch = patch_of(module.get_submodule(".".join(steps[:end])))
        if patch is not None:
            return pixels.shape[-2] // patch[0], pixels.shape[-1] // patch[1]
    return None
