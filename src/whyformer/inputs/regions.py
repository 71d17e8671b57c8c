"""Cut an image into regions, which LXMERT and VisualBERT read instead of pixels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from whyformer.errors import InputError, ModelError
from whyformer.inputs.images import open_image

FILE = "regions.json"
CHANNELS = 3
CORNERS = 4  # numbers in a box


@dataclass(frozen=True)
class RegionGrid:
    """A grid of regions over the whole image, row by row.

    A region's features are its pixels in -1..1, flattened (row, column, channel). Its box follows
    them if `boxes_in_features`.
    """

    size: tuple[int, int]  # (height, width) to which images are resized
    cell: int  # height and width of a region, in pixels
    boxes_in_features: bool = False

    def __post_init__(self) -> None:
        fits = self.cell > 0 and all(side > 0 and side % self.cell == 0 for side in self.size)
        if len(self.size) != 2 or not fits:
            raise InputError(
                f"a grid of cells of {self.cell} pixels does not fit an image of size"
                f" {tuple(self.size)}",
                argument="size",
                remedy="Pass a height and a width that are multiples of the cell",
            )

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, columns) of regions."""
        return self.size[0] // self.cell, self.size[1] // self.cell

    @property
    def width(self) -> int:
        """The number of features of a region."""
        return CHANNELS * self.cell**2 + (CORNERS if self.boxes_in_features else 0)

    def __call__(self, images: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Return features (batch, regions, width), boxes (batch, regions, 4) and pictures.

        The pictures, (batch, 3, height, width) in 0..1, are the resized images, for display.
        """
        if not len(images):
            raise InputError(
                "no image was given to cut regions from",
                argument="inputs",
                remedy="Pass at least one image",
            )
        pictures = torch.stack([self._picture(image) for image in images])
        boxes = self.boxes().expand(len(images), -1, -1)
        return self.features(pictures), boxes, pictures

    def boxes(self) -> Tensor:
        """(regions, 4): x0, y0, x1, y1 of each region, relative to the image's width and height."""
        rows, columns = self.grid
        down, right = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        corners = torch.stack([right, down, right + 1, down + 1], dim=-1).reshape(-1, CORNERS)
        return corners / torch.tensor([columns, rows, columns, rows])

    def features(self, pictures: Tensor) -> Tensor:
        """(batch, regions, width) of pictures (batch, 3, height, width) in 0..1."""
        rows, columns = self.grid
        if pictures.shape[1:] != (CHANNELS, *self.size):
            raise InputError(
                f"'pictures' has shape {tuple(pictures.shape)}; expected (batch, {CHANNELS},"
                f" {self.size[0]}, {self.size[1]}) to cut into regions",
                argument="pictures",
                remedy="Resize it first",
            )
        cut = pictures.reshape(-1, CHANNELS, rows, self.cell, columns, self.cell)
        pixels = cut.permute(0, 2, 4, 3, 5, 1).reshape(len(pictures), rows * columns, -1)
        scaled = pixels * 2 - 1
        if not self.boxes_in_features:
            return scaled
        boxes = self.boxes().to(scaled).expand(len(pictures), -1, -1)
        return torch.cat([scaled, boxes], dim=-1)

    def _picture(self, image: Any) -> Tensor:
        """One image or image file, resized, as (3, height, width) in 0..1."""
        from PIL.Image import Resampling

        height, width = self.size
        resized = open_image(image, "RGB").resize((width, height), Resampling.BILINEAR)
        return torch.from_numpy(numpy.array(resized, dtype=numpy.float32)).permute(2, 0, 1) / 255

    def save(self, folder: Path) -> None:
        """Write regions.json to the folder of a model."""
        facts = {
            "size": {"height": self.size[0], "width": self.size[1]},
            "cell": self.cell,
            "boxes_in_features": self.boxes_in_features,
        }
        (Path(folder) / FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> RegionGrid:
        """Read the grid from regions.json in the folder of a model."""
        path = Path(folder) / FILE
        if not path.is_file():
            raise ModelError(
                f"the folder '{folder}' has no {FILE}, which says how an image is cut into regions",
                argument="inputs",
                remedy="Pass the regions as tensors, or write the file with"
                " RegionGrid(...).save(folder)",
            )
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            size = int(facts["size"]["height"]), int(facts["size"]["width"])
            return cls(size, int(facts["cell"]), bool(facts["boxes_in_features"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"'{path}' cannot be read ({error!r}); expected size (height, width), cell and"
                " boxes_in_features",
                argument="model",
                remedy="Write it again with RegionGrid(...).save(folder)",
            ) from error
