"""Join the tiles of an image: as a mosaic if their places are known, else one below the other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from whyformer.models.families.soft import Item, Panel

Sample = list[tuple[Item, list[int]]]  # the items of a sample, and the columns of their tokens


def name_tiles(own: Sample, tokens: Sequence[str], shown: Sample | None = None) -> Sample:
    """The images of a sample whose tiles say their place in the text before them.

    An overview comes after its tiles; a tile without a place is an image. `shown` are the same
    tiles at another scale, to be joined in their place.
    """
    images: Sample = []
    tiles: dict[tuple[int, int], tuple[Item, list[int]]] = {}
    for (_, columns), (item, places) in zip(own, shown or own, strict=True):
        before = "".join(tokens[max(0, columns[0] - 2) : columns[0]])
        found = re.search(r"<row_(\d+)_col_(\d+)>", before)
        if found:
            place = (int(found[1]), int(found[2]))
            if place in tiles:
                images += [*tiles.values()]  # another image without an overview between
                tiles = {}
            tiles[place] = (item, places)
        else:
            images += [_mosaic(tiles, item, places)] if tiles else [(item, places)]
            tiles = {}
    return [*images, *tiles.values()]


def _mosaic(
    tiles: Mapping[tuple[int, int], tuple[Item, list[int]]], overview: Item, places: list[int]
) -> tuple[Item, list[int]]:
    """Tiles and their overview as one image."""
    rows, columns = (max(place[axis] for place in tiles) for axis in (0, 1))
    cells: list[list[Tensor]] = []
    pixels: list[list[Tensor]] = []
    every: list[int] = []
    (empty,) = overview.panels
    blank = empty.pixels
    assert blank is not None
    for row in range(1, rows + 1):
        cells.append([])
        pixels.append([])
        for column in range(1, columns + 1):
            item, own = tiles.get((row, column), (None, []))
            panel = item.panels[0] if item is not None else None
            cells[-1].append(
                panel.cells + len(every) if panel else torch.full_like(empty.cells, -1)
            )
            shown = panel.pixels if panel else None
            pixels[-1].append(torch.zeros_like(blank) if shown is None else shown)
            every += own
    whole = Panel(_join(cells), _join(pixels))
    small = Panel(empty.cells + len(every), empty.pixels, "overview")
    return Item(len(every) + overview.count, (whole, small)), every + places


def _join(parts: list[list[Tensor]]) -> Tensor:
    return torch.cat([torch.cat(row, -1) for row in parts], -2)


def join_tiles(own: Sample, shown: Sample | None = None) -> Sample:
    """The items of a sample; those whose tokens follow one another are tiles of one image.

    `shown` are the same tiles at another scale, to be joined in their place.
    """
    joined: Sample = []
    end = None
    for (_, columns), (item, places) in zip(own, shown or own, strict=True):
        if columns[0] == end:
            last, before = joined.pop()
            joined.append((_below(last, item), before + places))
        else:
            joined.append((item, places))
        end = columns[-1] + 1
    return joined


def _below(top: Item, tile: Item) -> Item:
    """Two items as one, the second below the first."""
    (above,), (below,) = top.panels, tile.panels
    pixels = None
    if above.pixels is not None and below.pixels is not None:
        pixels = torch.cat([above.pixels, below.pixels], 1)
    entries = {name: count + tile.entries[name] for name, count in top.entries.items()}
    cells = torch.cat([above.cells, below.cells + top.count])
    return Item(top.count + tile.count, (Panel(cells, pixels),), entries)
