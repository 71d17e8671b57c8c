"""Read the inputs of a model with several streams: texts and images, or arguments of forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.detect import is_image, kind_of, texts_of
from whyformer.inputs.images import image_arguments
from whyformer.inputs.multimodal_prompt import is_prompt, read_prompts
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
    """Arguments of forward, and facts about the texts and images that they were made from."""

    arguments: dict[str, Any]
    groups: Mapping[str, Groups | None] = field(default_factory=dict)  # words, by stream
    image_processors: Mapping[str, Any] = field(default_factory=dict)  # by stream
    pictures: Mapping[str, tuple[RegionGrid, Tensor]] = field(default_factory=dict)  # by stream
    notes: tuple[str, ...] = ()


def read_raw_inputs(
    inputs: Any,
    module: nn.Module,
    forward: Forward,
    family: Family,
    processor: Any,
    truncation: bool,
) -> RawInputs:
    """Return the user's arguments of forward, or make them from texts and images."""
    required = [source for source in family.sources if not source.optional]
    if family.soft and is_prompt(inputs, family):
        made, notes = read_prompts(inputs, module, forward, family, processor)
        return RawInputs(made, notes=notes)
    if isinstance(inputs, Mapping):
        streams = {source.stream for source in family.sources}
        # open_clip calls its arguments as we call the streams: tensors are arguments.
        carriers = {source.carrier for source in family.sources}
        tensors = all(isinstance(value, Tensor) for value in inputs.values())
        if not set(inputs) <= streams or not inputs or (tensors and set(inputs) <= carriers):
            texts = [source for source in required if source.kind == "ids"]
            groups = {s.stream: word_groups_in(inputs, s.carrier) for s in texts}
            return RawInputs(known_arguments(inputs, forward), groups)
        samples = {name: _as_list(value) for name, value in inputs.items() if value is not None}
    elif len(required) == 1 and isinstance(inputs, Tensor):
        return RawInputs({required[0].carrier: inputs})
    else:
        samples = _split_by_stream(inputs, required, module)
    raw = RawInputs({})
    for source in family.sources:
        if source.stream in samples:
            items = samples[source.stream]
            raw = _add_stream(raw, items, source, module, forward, processor, truncation)
    return raw


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _split_by_stream(
    inputs: Any, required: Sequence[Source], module: nn.Module
) -> dict[str, list[Any]]:
    """The texts and the images of one sample or a list of samples, by stream."""
    if len(required) == 1:
        return {required[0].stream: _as_list(inputs)}
    streams = {"text": [s.stream for s in required if s.kind == "ids"]}
    streams["image"] = [s.stream for s in required if s.kind != "ids"]
    split: dict[str, list[Any]] = {}
    for sample in inputs if isinstance(inputs, list) else [inputs]:
        parts = [*sample.values()] if isinstance(sample, Mapping) else sample
        parts = parts if isinstance(parts, tuple | list) else [parts]
        kinds = [_kind_of_part(part) for part in parts]
        if sorted(kinds) != ["image", "text"]:
            raise InputError(
                f"{type(module).__name__} reads {' and '.join(s.stream for s in required)}, and a"
                f" sample has {' and '.join(kinds) or 'nothing'}",
                argument="inputs",
                remedy="Pass (text, image) pairs, or a mapping such as"
                " {'text': 'what colour is it?', 'image': 'scene.png'}",
            )
        for part, kind in zip(parts, kinds, strict=True):
            split.setdefault(streams[kind][0], []).append(part)
    return split


def _kind_of_part(part: Any) -> str:
    if is_image(part) or isinstance(part, Path):
        return "image"
    return kind_of(part) if isinstance(part, str) else type(part).__name__


def _add_stream(
    raw: RawInputs,
    items: list[Any],
    source: Source,
    module: nn.Module,
    forward: Forward,
    processor: Any,
    truncation: bool,
) -> RawInputs:
    """`raw` with the arguments of one more stream, made from its texts or images."""
    part = source.submodule(module)
    if source.kind == "ids":
        tokenizer = tokenizer_of(processor, module)
        made, groups, notes = text_arguments(texts_of(items), part, forward, tokenizer, truncation)
        if source.full:
            made = _fill_positions(made, part, tokenizer)
        names = {"input_ids": source.carrier, "attention_mask": source.mask}
        own = {names.get(k) or k: v for k, v in made.items() if forward.takes(k)}
        return replace(
            raw,
            arguments={**raw.arguments, **own},
            groups={**raw.groups, source.stream: groups},
            notes=raw.notes + notes,
        )
    if source.kind == "pixels":
        found = image_processor_of(processor, module)
        made, found = image_arguments(items, part, forward, found)
        return replace(
            raw,
            arguments={**raw.arguments, **made},
            image_processors={**raw.image_processors, source.stream: found},
        )
    regions = region_grid_of(module) if source.kind == "features" else None
    if regions is None:
        raise InputError(
            f"{type(module).__name__} takes '{source.carrier}', features that another model"
            f" computes from {STREAM_NAMES.get(source.stream, source.stream)}",
            argument="inputs",
            remedy="Pass the features as a tensor in a mapping",
        )
    features, boxes, pictures = regions(items)
    made = {source.carrier: features}
    if source.boxes:
        made[source.boxes] = boxes
    return replace(
        raw,
        arguments={**raw.arguments, **made},
        pictures={**raw.pictures, source.stream: (regions, pictures)},
    )


def _fill_positions(made: dict[str, Any], part: nn.Module, tokenizer: Any) -> dict[str, Any]:
    """The ids padded to all positions of the model, without a mask: it reads the padding."""
    both = zip(made["input_ids"], made["attention_mask"], strict=True)
    rows = [row[real.bool()].tolist() for row, real in both]
    limit, fill = positions_of(part) or max(map(len, rows)), padding_id(part, tokenizer)
    return {"input_ids": pad_rows([row + [fill] * (limit - len(row)) for row in rows], fill)}


def region_grid_of(module: nn.Module) -> RegionGrid | None:
    """The grid of regions in the folder that the model was loaded from, or None."""
    origin = str(getattr(module, "name_or_path", "") or "")
    return RegionGrid.load(Path(origin)) if origin and (Path(origin) / REGIONS).is_file() else None
