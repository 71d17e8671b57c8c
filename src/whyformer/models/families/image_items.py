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


def grid_items(merge: Callable[[Any], int] = lambda config: 1, prefix: int | None = None) -> Items:
    """Images of one size: a token for each square of `merge` x `merge` patches.

    Args:
        merge: Patches on a side of a token's square, from the config.
        prefix: Tokens before the patches; by default the class token, if the config keeps it.
    """

    def items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
        pixels: Tensor = arguments["pixel_values"]
        cell = _side(config.vision_config.patch_size) * merge(config)
        rows, columns = pixels.shape[-2] // cell, pixels.shape[-1] // cell
        full = getattr(config, "vision_feature_select_strategy", "default") == "full"
        first = (1 if full else 0) if prefix is None else prefix
        cells = rectangle(rows, columns, first)
        entries = {"pixel_values": 1}
        return [
            Item(first + cells.numel(), (Panel(cells, image),), entries)
            for image in pixels.flatten(0, -4)
        ]

    return items


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
    """Images of one size that a set of learned queries reads: tokens without places."""

    def items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
        pixels: Tensor = arguments["pixel_values"]
        cells = line(count(config))
        return [
            Item(len(cells), (Panel(cells),), {"pixel_values": 1})
            for _ in range(pixels.flatten(0, -4).shape[0])
        ]

    return items


def _side(size: Any) -> int:
    """One number of a (height, width) pair or of a number; patches are squares."""
    return int(size[0] if isinstance(size, list | tuple) else size)


# -- tiny inputs, one image per sample -------------------------------------------------------------


def tiny_pixels(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Random images of the vision model's size."""
    side = _side(config.vision_config.image_size)
    images = [torch.randn(3, side, side, generator=generator) for _ in range(samples)]
    return {"pixel_values": torch.stack(images)}


def tiny_patches(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Random lists of patches, of images of different sizes."""
    vision = config.vision_config
    merge, width = vision.spatial_merge_size, 3 * vision.patch_size**2
    width *= getattr(vision, "temporal_patch_size", 1)
    grids = [(1, 2 * merge, (2 + i % 2) * merge) for i in range(samples)]
    patches = [torch.randn(t * h * w, width, generator=generator) for t, h, w in grids]
    return {"pixel_values": torch.cat(patches), "image_grid_thw": torch.tensor(grids)}
