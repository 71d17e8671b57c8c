"""How many soft tokens each image has, and which part of the image each of them shows.

Each function returns the images of a batch in order, from the config and the arguments of forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.models.families.soft import Item, Panel, line, rectangle

Items = Callable[[Any, Mapping[str, Any]], list[Item]]


def grid_items(merge: Callable[[Any], int] = lambda config: 1, extra: int = 0) -> Items:
    """Images of one size: a token for each square of `merge` x `merge` patches.

    Args:
        merge: Patches on a side of a token's square, from the config.
        extra: Tokens of no patch before those of the patches, besides a class token.
    """

    def items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
        cell = _side(config.vision_config.patch_size) * merge(config)
        found = []
        for image, entries in _images(arguments["pixel_values"]):
            first = extra + class_tokens(config)
            cells = rectangle(image.shape[-2] // cell, image.shape[-1] // cell, first)
            found.append(Item(int(cells.max()) + 1, (Panel(cells, image),), entries))
        return found

    return items


def class_tokens(config: Any) -> int:
    """How many tokens the language model reads before those of the patches; -1: not the first one.

    The strategy "default" drops the first token of the tower, which is a class token in most.
    """
    strategy = getattr(config, "vision_feature_select_strategy", None)
    if strategy is None:
        return 0  # a model of its own tower reads patches only
    return tower_class_tokens(config) - int(strategy == "default")


def tower_class_tokens(config: Any) -> int:
    """How many tokens the tower has before those of the patches."""
    kind = getattr(config.vision_config, "model_type", "")
    return int("siglip" not in kind and kind != "pixtral")


def patch_items(prefix: Callable[[Any], int] = lambda config: 0) -> Items:
    """Images of one size: the patches of a tower, after `prefix` tokens of no patch."""

    def items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
        side, first = _side(config.vision_config.patch_size), prefix(config)
        found = []
        for image, entries in _images(arguments["pixel_values"]):
            cells = rectangle(image.shape[-2] // side, image.shape[-1] // side, first)
            found.append(Item(int(cells.max()) + 1, (Panel(cells, image),), entries))
        return found

    return items


def _images(pixels: Tensor) -> list[tuple[Tensor, dict[str, int]]]:
    """The images, and how many entries each has: one, or none if the first axis counts samples.

    Samples with fewer images have images of zeros, which the model leaves out.
    """
    if pixels.ndim == 4:
        return [(image, {"pixel_values": 1}) for image in pixels]
    return [(image, {}) for image in pixels.flatten(0, 1) if bool((image != 0).any())]


def sized_items(merge: Callable[[Any], int] = lambda config: 1) -> Items:
    """Images of any size, padded to the largest; `image_sizes` are (height, width) in pixels."""

    def items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
        pixels: Tensor = arguments["pixel_values"]
        cell = _side(config.vision_config.patch_size) * merge(config)
        found = []
        for image, (height, width) in zip(pixels, arguments["image_sizes"].tolist(), strict=True):
            cells = rectangle(height // cell, width // cell)
            shown = image[:, : cells.shape[0] * cell, : cells.shape[1] * cell]
            entries = {"pixel_values": 1, "image_sizes": 1}
            found.append(Item(cells.numel(), (Panel(cells, shown),), entries))
        return found

    return items


def packed_items(carrier: str = "pixel_values", grids: str = "image_grid_thw") -> Items:
    """Images of any size as one list of patches; `grids` are (frames, rows, columns) of patches.

    The frames of a video are shown one below the other.
    """

    def items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
        merge, found, start = config.vision_config.spatial_merge_size, [], 0
        for frames, rows, columns in arguments[grids].tolist():
            patches = frames * rows * columns
            own = arguments[carrier][start : start + patches]
            cells = rectangle(frames * rows // merge, columns // merge)
            shown = unpack_patches(own, (frames, rows, columns), merge, config.vision_config)
            entries = {carrier: patches, grids: 1}
            found.append(Item(cells.numel(), (Panel(cells, shown),), entries))
            start += patches
        return found

    return items


def packed_patches(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
    """The patches of `packed_items`; the list goes through squares, as in `unpack_patches`."""
    merge, found = config.vision_config.spatial_merge_size, []
    for frames, rows, columns in arguments["image_grid_thw"].tolist():
        squares = (frames, rows // merge, columns // merge, merge, merge)
        cells = line(frames * rows * columns).reshape(squares).permute(0, 1, 3, 2, 4)
        cells = cells.reshape(frames * rows, columns)
        found.append(Item(cells.numel(), (Panel(cells),)))
    return found


def unpack_patches(
    patches: Tensor, grid: tuple[int, int, int], merge: int, vision: Any
) -> Tensor | None:
    """The pixels of a list of patches, (3, height, width); None if the patches are of another form.

    The list goes through squares of `merge` x `merge` patches, and row by row within a square.
    """
    frames, rows, columns = grid
    side, times = _side(vision.patch_size), getattr(vision, "temporal_patch_size", 1)
    if patches.shape != (frames * rows * columns, 3 * times * side * side):
        return None
    split = patches.reshape(
        frames, rows // merge, columns // merge, merge, merge, 3, times, side, side
    )
    whole = split[:, :, :, :, :, :, 0].permute(5, 0, 1, 3, 6, 2, 4, 7)
    return whole.reshape(3, frames * rows * side, columns * side)


def query_items(count: Callable[[Any], int]) -> Items:
    """Images that a set of learned queries reads: tokens without places."""

    def items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
        cells = line(count(config))
        images = _images(arguments["pixel_values"])
        return [Item(len(cells), (Panel(cells),), entries) for _, entries in images]

    return items


def mosaic_items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
    """Images of any size, cut into tiles around which padding is left out, after an overview.

    The tokens are those of the overview, then the rows of the mosaic with an end of line after
    each. `pixel_values` are (images, tiles, 3, height, width) or all tiles in a list.
    """
    from transformers.models.llava_next.modeling_llava_next import (
        get_anyres_image_grid_shape,
        unpad_image,
    )

    pixels: Tensor = arguments["pixel_values"]
    vision = config.vision_config
    patch, side = _side(vision.patch_size), _side(vision.image_size) // _side(vision.patch_size)
    alone = _alone(arguments)
    found, start = [], 0
    for number, size in enumerate(arguments["image_sizes"].tolist()):
        shape = get_anyres_image_grid_shape(size, config.image_grid_pinpoints, side * patch)
        count = 1 if alone[number] else 1 + shape[0] * shape[1]
        tiles = pixels[number, :count] if pixels.ndim == 5 else pixels[start : start + count]
        start += count
        entries = {"pixel_values": 1 if pixels.ndim == 5 else count, "image_sizes": 1}
        overview = rectangle(side, side)
        if count == 1:
            found.append(Item(side * side + 1, (Panel(overview, tiles[0]),), entries))
            continue
        whole = unpad_image(rectangle(shape[0] * side, shape[1] * side).unsqueeze(0), size)[0]
        mosaic = tiles[1:].reshape(*shape, *tiles.shape[1:]).permute(2, 0, 3, 1, 4)
        mosaic = mosaic.reshape(tiles.shape[1], shape[0] * side * patch, shape[1] * side * patch)
        top, left = divmod(int(whole[0, 0]), shape[1] * side)
        shown = mosaic[:, top * patch :, left * patch :]
        shown = shown[:, : whole.shape[0] * patch, : whole.shape[1] * patch]
        rows, columns = _shrunk(whole.shape[0], whole.shape[1], side, config, arguments)
        cells = side * side + rectangle(rows, columns + 1)[:, :columns]
        panels = (Panel(cells, shown), Panel(overview, tiles[0], "overview"))
        found.append(Item(side * side + rows * (columns + 1), panels, entries))
    return found


def _alone(arguments: Mapping[str, Any]) -> list[bool]:
    """Whether each image is not cut into tiles, as LLaVA-OneVision does if there are several."""
    counts = arguments.get("batch_num_images")
    if counts is None:
        return [False] * len(arguments["image_sizes"])
    return [count != 1 for count in counts.tolist() for _ in range(count)]


def _shrunk(
    rows: int, columns: int, side: int, config: Any, arguments: Mapping[str, Any]
) -> tuple[int, int]:
    """The mosaic's grid after LLaVA-OneVision shrinks it to its largest number of tiles."""
    setting = getattr(config, "vision_aspect_ratio", None)
    setting = arguments.get("vision_aspect_ratio") or setting
    if setting is None:
        return rows, columns
    most = int(setting.removeprefix("anyres_max_"))
    ratio = (rows * columns / (most * side**2)) ** 0.5
    return (int(rows // ratio), int(columns // ratio)) if ratio > 1.1 else (rows, columns)


def _side(size: Any) -> int:
    """One number of a (height, width) pair or of a number; patches are squares."""
    return int(size[0] if isinstance(size, list | tuple) else size)


# -- tiny inputs, one image per sample -------------------------------------------------------------


def tiny_pixels(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Random images of the vision model's size."""
    side = _side(config.vision_config.image_size)
    images = [torch.randn(3, side, side, generator=generator) for _ in range(samples)]
    return {"pixel_values": torch.stack(images)}


def tiny_tiles(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Random tiles of images of different sizes: two tiles side by side, and an overview."""
    side = _side(config.vision_config.image_size)
    tiles = [torch.randn(3, 3, side, side, generator=generator) for _ in range(samples)]
    sizes = [(side - 8 * (i % 2), 2 * side) for i in range(samples)]
    return {"pixel_values": torch.stack(tiles), "image_sizes": torch.tensor(sizes)}


def tiny_batches(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Random images with an axis of samples."""
    return {"pixel_values": tiny_pixels(config, samples, generator)["pixel_values"].unsqueeze(1)}


def tiny_sizes(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Random images of different sizes, padded to the largest."""
    side = _side(config.vision_config.patch_size) * 4
    sizes = [(side, side * (1 + i % 2)) for i in range(samples)]
    pixels = torch.stack([torch.randn(3, side, 2 * side, generator=generator) for _ in sizes])
    for image, (_, width) in zip(pixels, sizes, strict=True):
        image[:, :, width:] = 0
    return {
        "pixel_values": pixels[..., : max(w for _, w in sizes)],
        "image_sizes": torch.tensor(sizes),
    }


def tiny_patches(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Random lists of patches, of images of different sizes."""
    vision = config.vision_config
    merge, width = vision.spatial_merge_size, 3 * vision.patch_size**2
    width *= getattr(vision, "temporal_patch_size", 1)
    grids = [(1, 2 * merge, (2 + i % 2) * merge) for i in range(samples)]
    patches = [torch.randn(t * h * w, width, generator=generator) for t, h, w in grids]
    return {"pixel_values": torch.cat(patches), "image_grid_thw": torch.tensor(grids)}
