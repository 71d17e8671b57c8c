"""What was passed for several streams: arguments of forward, or texts and images to make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.detect import is_image, kind_of, texts_of
from whyformer.inputs.images import image_arguments
from whyformer.inputs.padding import pad_rows, padding_id
from whyformer.inputs.regions import FILE as REGIONS
from whyformer.inputs.regions import RegionGrid
from whyformer.inputs.sequence import Groups
from whyformer.inputs.tensors import known_arguments, word_groups_in
from whyformer.inputs.text import text_arguments
from whyformer.models.families import Family, Source
from whyformer.models.processors import image_processor_of, tokenizer_of
from whyformer.models.signature import Forward, positions_of

STREAM_NAMES = {"text": "text", "image": "an image", "source": "text", "audio": "sound"}


@dataclass(frozen=True)
class RawInputs:
    """Arguments of forward, and what is known about the streams they were made from."""

    arguments: dict[str, Any]
    groups: Mapping[str, Groups | None] = field(default_factory=dict)  # words, by stream
    steps: Mapping[str, Any] = field(default_factory=dict)  # image processors, by stream
    pictures: Mapping[str, tuple[RegionGrid, Tensor]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_raw_inputs(
    inputs: Any,
    module: nn.Module,
    forward: Forward,
    family: Family,
    processor: Any,
    truncation: bool,
) -> RawInputs:
    """The arguments that the user passed, or that were made from texts and images."""
    wanted = [s for s in family.sources if not s.optional]
    if isinstance(inputs, Mapping):
        streams = {source.stream for source in family.sources}
        if not set(inputs) <= streams or not set(inputs):
            groups = {
                s.stream: word_groups_in(inputs, s.carrier) for s in wanted if s.kind == "ids"
            }
            return RawInputs(known_arguments(inputs, forward), groups)
        raw = {name: _as_list(value) for name, value in inputs.items() if value is not None}
    elif len(wanted) == 1 and isinstance(inputs, Tensor):
        return RawInputs({wanted[0].carrier: inputs})
    else:
        raw = _split_by_stream(inputs, wanted, module)
    given = RawInputs({})
    for source in family.sources:
        if source.stream in raw:
            given = _add_stream(
                raw[source.stream], source, given, module, forward, processor, truncation
            )
    return given


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _split_by_stream(
    inputs: Any, wanted: Sequence[Source], module: nn.Module
) -> dict[str, list[Any]]:
    """The samples' texts and images by stream, from one sample or a list of them."""
    if len(wanted) == 1:
        return {wanted[0].stream: _as_list(inputs)}
    streams = {"text": [s.stream for s in wanted if s.kind == "ids"]}
    streams["image"] = [s.stream for s in wanted if s.kind != "ids"]
    samples = inputs if isinstance(inputs, list) else [inputs]
    raw: dict[str, list[Any]] = {}
    for sample in samples:
        parts = [*sample.values()] if isinstance(sample, Mapping) else sample
        parts = parts if isinstance(parts, tuple | list) else [parts]
        kinds = [_kind_of_part(part) for part in parts]
        if sorted(kinds) != ["image", "text"]:
            raise InputError(
                f"{type(module).__name__} reads {' and '.join(s.stream for s in wanted)}, and a"
                f" sample has {' and '.join(kinds) or 'nothing'}; pass (text, image) pairs, or a"
                f" mapping such as {{'text': 'what colour is it?', 'image': 'scene.png'}}"
            )
        for part, kind in zip(parts, kinds, strict=True):
            raw.setdefault(streams[kind][0], []).append(part)
    return raw


def _kind_of_part(part: Any) -> str:
    if is_image(part) or isinstance(part, Path):
        return "image"
    return kind_of(part) if isinstance(part, str) else type(part).__name__


def _add_stream(
    items: list[Any],
    source: Source,
    given: RawInputs,
    module: nn.Module,
    forward: Forward,
    processor: Any,
    truncation: bool,
) -> RawInputs:
    """What was given so far, and the arguments made from one stream's texts or images."""
    part = source.submodule(module)
    if source.kind == "ids":
        tokenizer = tokenizer_of(processor, module)
        texts = texts_of(items)
        made, groups, notes = text_arguments(texts, part, forward, tokenizer, truncation)
        if source.full:
            made = _fill_positions(made, part, tokenizer)
        renamed = {"input_ids": source.carrier, "attention_mask": source.mask}
        named = {renamed.get(k) or k: v for k, v in made.items() if forward.takes(k)}
        return replace(
            given,
            arguments={**given.arguments, **named},
            groups={**given.groups, source.stream: groups},
            notes=given.notes + notes,
        )
    if source.kind == "pixels":
        steps = image_processor_of(processor, module)
        made, steps = image_arguments(items, part, forward, steps)
        return replace(
            given,
            arguments={**given.arguments, **made},
            steps={**given.steps, source.stream: steps},
        )
    regions = region_grid_of(module) if source.kind == "features" else None
    if regions is None:
        raise InputError(
            f"{type(module).__name__} takes '{source.carrier}', numbers that another model computes"
            f" from {STREAM_NAMES.get(source.stream, source.stream)}; pass them as a tensor in a mapping"
        )
    features, boxes, pictures = regions(items)
    made = {source.carrier: features}
    if source.boxes:
        made[source.boxes] = boxes
    return replace(
        given,
        arguments={**given.arguments, **made},
        pictures={**given.pictures, source.stream: (regions, pictures)},
    )


def _fill_positions(made: dict[str, Any], part: nn.Module, tokenizer: Any) -> dict[str, Any]:
    """The ids with padding up to the last position that the model has, which it reads too."""
    both = zip(made["input_ids"], made["attention_mask"], strict=True)
    rows = [row[real.bool()].tolist() for row, real in both]
    limit, fill = positions_of(part) or max(map(len, rows)), padding_id(part, tokenizer)
    return {"input_ids": pad_rows([row + [fill] * (limit - len(row)) for row in rows], fill)}


def region_grid_of(module: nn.Module) -> RegionGrid | None:
    """How an image is cut into regions, from the folder that the model was loaded from."""
    origin = str(getattr(module, "name_or_path", "") or "")
    return RegionGrid.load(Path(origin)) if origin and (Path(origin) / REGIONS).is_file() else None
