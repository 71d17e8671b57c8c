"""Find the images and sounds of each sample by the placeholders in its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Batch, Tokens
from whyformer.inputs.image_tiles import Sample, join_tiles, name_tiles
from whyformer.inputs.images import display_pixels
from whyformer.inputs.soft_tokens import Patches, SoftStream, SoftTokens
from whyformer.models.families import Family
from whyformer.models.families.soft import Item, Panel, Soft
from whyformer.models.processors import image_processor_of

# A neutral image or sound. Not 0: Idefics3 takes an image of zeros for padding and drops it.
NEUTRAL = 1e-6


def add_kinds(arguments: Mapping[str, Any], module: nn.Module, family: Family) -> dict[str, Any]:
    """Return the arguments with the kinds of the tokens, which processors return, if missing."""
    found = dict(arguments)
    config, ids = getattr(module, "config", None), arguments.get("input_ids")
    for soft in family.soft:
        given = arguments.get(soft.kinds) is not None
        needed = soft.kinds and soft.needs_kinds
        if needed and not given and isinstance(ids, Tensor) and ids.ndim == 2:
            kinds = found.get(soft.kinds, torch.zeros_like(ids))
            found[soft.kinds] = kinds.masked_fill(soft.columns(config, arguments), soft.kind)
    return found


def place_soft_tokens(batch: Batch, module: nn.Module, family: Family, processor: Any) -> Batch:
    """Return the batch with the streams at its placeholders.

    Raises:
        InputError: The images do not have as many tokens as there are placeholders.
    """
    config = getattr(module, "config", None)
    ids: Tensor = batch.arguments[batch.carrier]
    every = torch.zeros(ids.shape[:2], dtype=torch.bool, device=ids.device)
    streams: list[SoftStream] = []
    owners: dict[str, tuple[int, ...]] = {}
    patches: Patches | None = None
    baseline = dict(batch.baseline_arguments)
    for soft in family.soft:
        columns = soft.columns(config, batch.arguments)
        if batch.mask is not None:
            columns = columns & batch.mask.to(columns.device)
        value = batch.arguments.get(soft.carrier)
        items = [] if value is None else soft.items(config, batch.arguments)
        split = _split_items(items, columns, soft, config)
        samples = _join_tiles(split, split, soft, batch.tokens)
        reader = image_processor_of(processor, module)
        streams += _streams(samples, soft, reader)
        if soft.tower is not None and items:
            below = _tower_samples(soft.tower.items(config, batch.arguments), split)
            shown = _streams(_join_tiles(split, below, soft, batch.tokens), soft, reader)
            counts = tuple(sum(item.count for item, _ in own) for own in below)
            patches = Patches(soft.tower.blocks, tuple(shown), counts)
        for name in dict.fromkeys(name for item in items for name in item.entries):
            owners[name] = tuple(
                sample
                for sample, own in enumerate(samples)
                for item, _ in own
                for _ in range(item.entries.get(name, 0))
            )
            _check_entries(name, batch.arguments[name], len(owners[name]), soft)
        every |= columns
        if isinstance(value, Tensor):
            baseline[soft.carrier] = torch.full_like(value, NEUTRAL)
    if not bool(every.any()):
        return batch
    baseline[batch.carrier] = ids.where(every, baseline[batch.carrier])
    streams = [replace(one, places=one.places.to(ids.device)) for one in streams]
    soft_tokens = SoftTokens(every, tuple(streams), owners, _with_images(patches, streams))
    return replace(batch, soft=soft_tokens, baseline_arguments=baseline)


def continue_soft(
    batch: Batch, outputs: Sequence[Sequence[int]], width: int, family: Family
) -> dict[str, Any]:
    """Return the arguments besides ids and mask for texts that go on with an output.

    Args:
        batch: The texts with their images.
        outputs: The ids that follow each text.
        width: The columns before the outputs; shorter texts are padded on the left.
        family: The model's family.
    """
    assert batch.soft is not None
    assert batch.mask is not None
    shape = batch.arguments[batch.carrier].shape[:2]
    longest = max(map(len, outputs))
    found: dict[str, Any] = {}
    for name, value in batch.arguments.items():
        is_per_token = isinstance(value, Tensor) and value.shape[:2] == shape
        if not is_per_token or name in batch.soft.owners:
            found[name] = value
        elif name not in ("input_ids", "attention_mask", "position_ids"):
            whole = value.new_zeros(len(value), width + longest)
            for row, (own, real) in enumerate(zip(value, batch.mask, strict=True)):
                whole[row, width - int(real.sum()) : width] = own[real]
                end = width + len(outputs[row])
                whole[row, width:end] = family.answer.get(name, 0)
            found[name] = whole
    return found


def _split_items(items: list[Item], columns: Tensor, soft: Soft, config: Any) -> list[Sample]:
    """The items of each sample, in order, with the columns of their tokens."""
    remaining, samples = list(items), []
    for sample, row in enumerate(columns):
        places: list[int] = row.nonzero().flatten().tolist()
        own: Sample = []
        while places:
            if not remaining or remaining[0].count > len(places):
                raise _mismatch(items, columns, soft, config, sample)
            item = remaining.pop(0)
            own.append((item, places[: item.count]))
            places = places[item.count :]
        samples.append(own)
    if remaining:
        raise _mismatch(items, columns, soft, config, None)
    return samples


def _join_tiles(
    split: list[Sample], shown: list[Sample], soft: Soft, tokens: Tokens | None
) -> list[Sample]:
    """The items `shown` of each sample with tiles joined, as those in the text are."""
    if soft.tiled:
        return [join_tiles(own, one) for own, one in zip(split, shown, strict=True)]
    if soft.named_tiles and tokens is not None:
        rows = zip(split, tokens, shown, strict=True)
        return [name_tiles(own, words, one) for own, words, one in rows]
    return shown


def _tower_samples(items: list[Item], split: list[Sample]) -> list[Sample]:
    """The states of the tower of each sample's images, as `split` has their tokens."""
    remaining, samples = iter(items), []
    for own in split:
        below: Sample = []
        start = 0
        for _ in own:
            item = next(remaining)
            below.append((item, [*range(start, start + item.count)]))
            start += item.count
        samples.append(below)
    return samples


def _with_images(patches: Patches | None, streams: Sequence[SoftStream]) -> Patches | None:
    """The patches with the pictures of their soft tokens, where these have some."""
    if patches is None:
        return None
    shown = {one.name: one.image for one in streams if one.image is not None}
    device = streams[0].places.device
    return replace(
        patches,
        streams=tuple(
            replace(one, places=one.places.to(device), image=shown.get(one.name, one.image))
            for one in patches.streams
        ),
    )


def _streams(samples: list[Sample], soft: Soft, processor: Any) -> list[SoftStream]:
    """One stream for each panel of the first image, of the second image, and so on."""
    panels: dict[str, dict[int, tuple[Panel, list[int]]]] = {}
    for sample, own in enumerate(samples):
        for number, (item, places) in enumerate(own):
            for panel in item.panels:
                name = soft.stream if number == 0 else f"{soft.stream} {number + 1}"
                name = f"{name} {panel.name}".strip()
                panels.setdefault(name, {})[sample] = (panel, places)
    ordered = sorted(panels, key=lambda name: (_number(name, soft.stream), name))
    return [_stream(name, panels[name], len(samples), processor) for name in ordered]


def _number(name: str, stream: str) -> int:
    number = name.removeprefix(stream).strip().split(" ")[0]
    return int(number) if number.isdigit() else 1


def _stream(
    name: str, panels: Mapping[int, tuple[Panel, list[int]]], batch: int, processor: Any
) -> SoftStream:
    """The panels of one name, one per sample, on a canvas that the largest fits."""
    grids = [panel.grid or (1, len(panel.cells)) for panel, _ in panels.values()]
    rows, columns = (max(grid[axis] for grid in grids) for axis in (0, 1))
    places = torch.full((batch, rows, columns), -1)
    for sample, (panel, own) in panels.items():
        cells = panel.cells.reshape(panel.grid or (1, len(panel.cells)))
        found = torch.tensor([*own, -1])[cells]  # cell -1 reads the entry at the end
        places[sample, : cells.shape[0], : cells.shape[1]] = found
    flat = all(panel.grid is None for panel, _ in panels.values())
    image = None if flat else _canvas(panels, batch, (rows, columns))
    shown = None if image is None else display_pixels(image, processor)
    return SoftStream(name, places.flatten(1), None if flat else (rows, columns), shown)


def _canvas(
    panels: Mapping[int, tuple[Panel, list[int]]], batch: int, grid: tuple[int, int]
) -> Tensor | None:
    """The pixels of the panels, (batch, 3, height, width); None if cells differ in size."""
    sizes, pixels = set(), {}
    for sample, (panel, _) in panels.items():
        if panel.pixels is None or panel.grid is None:
            return None
        height, width = panel.pixels.shape[1:]
        sizes.add((height / panel.grid[0], width / panel.grid[1]))
        pixels[sample] = panel.pixels.detach().float().cpu()
    if len(sizes) > 1:
        return None
    ((tall, wide),) = sizes
    whole = (round(tall * grid[0]), round(wide * grid[1]))
    canvas = torch.zeros(batch, 3, *whole)
    for sample, own in pixels.items():
        own = own if own.shape[0] == 3 else own[:1].expand(3, -1, -1)
        canvas[sample] = F.pad(own, (0, whole[1] - own.shape[2], 0, whole[0] - own.shape[1]))
    return canvas


# -- errors ----------------------------------------------------------------------------------------


def _mismatch(
    items: Sequence[Item], columns: Tensor, soft: Soft, config: Any, sample: int | None
) -> InputError:
    """The error for images that do not fit the placeholders."""
    counts = columns.sum(1).tolist()
    setting = soft.marks or f"config.{soft.placeholder} = {getattr(config, soft.placeholder, None)}"
    own = [item.count for item in items]
    given = f"'{soft.carrier}' gives {_total(own)} tokens of {len(own)} {soft.stream}"
    given += "" if len(own) == 1 else "s"
    if not items:
        given = f"there is no '{soft.carrier}'"
    where = f"sample {sample} does not fit" if sample is not None and items else ""
    return InputError(
        f"the texts have {_total(counts)} placeholders ({setting}) and {given}"
        + (f": {where}" if where else ""),
        argument="inputs",
        remedy=f"Pass the {soft.stream}s that the placeholders stand for, in their order, or let"
        " the model's processor write the placeholders: {'text': ..., '" + soft.stream + "': ...}",
    )


def _total(counts: Sequence[int]) -> str:
    return (
        f"{' + '.join(map(str, counts))} = {sum(counts)}" if len(counts) > 1 else f"{sum(counts)}"
    )


def _check_entries(name: str, value: Any, count: int, soft: Soft) -> None:
    if isinstance(value, Tensor) and len(value) != count:
        raise InputError(
            f"'{name}' has {len(value)} entries in shape {tuple(value.shape)}, and the"
            f" {soft.stream}s of the texts need {count}",
            argument="inputs",
            remedy="Pass what the model's processor returns, unchanged",
        )
