"""Where the tokens of images and sounds stand in the texts of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class SoftStream:
    """One image (or sound) of each sample.

    Attributes:
        name: "image", "image 2", "image overview", "audio", ...
        places: (batch, cells), the column of each cell's token in the text; -1 if there is none.
        grid: (rows, columns) of the cells, row by row; None for a line.
        image: (batch, 3, height, width) in 0..1: the pixels that the model saw, if known.
    """

    name: str
    places: Tensor
    grid: tuple[int, int] | None = None
    image: Tensor | None = None

    def take(self, rows: Sequence[int]) -> SoftStream:
        """Return the stream of these samples; they may repeat and be in any order."""
        index = torch.as_tensor(rows, dtype=torch.long)
        return replace(
            self,
            places=self.places[index.to(self.places.device)],
            image=None if self.image is None else self.image[index],
        )

    def take_columns(self, values: Tensor, dim: int = 1) -> Tensor:
        """Return the values at its tokens; the axis `dim` of `values` has the text's columns."""
        index = self.places.to(values.device).clamp(min=0)
        shape = [1] * values.ndim
        shape[0], shape[dim] = index.shape
        size = [*values.shape]
        size[dim] = index.shape[1]
        taken = values.gather(dim, index.reshape(shape).expand(size))
        return taken.masked_fill((self.places < 0).to(values.device).reshape(shape), 0)


@dataclass(frozen=True)
class Patches:
    """What enters the encoder of a batch's images.

    Attributes:
        blocks: Path of the encoder's blocks.
        streams: As in `SoftTokens`, with places among the encoder's states of each sample.
        counts: How many of these states each sample has.
    """

    blocks: str
    streams: tuple[SoftStream, ...]
    counts: tuple[int, ...]

    def take(self, rows: Sequence[int]) -> Patches:
        """Return the patches of these samples."""
        streams = tuple(one.take(rows) for one in self.streams)
        return replace(self, streams=streams, counts=tuple(self.counts[row] for row in rows))


@dataclass(frozen=True)
class SoftTokens:
    """The soft tokens of a batch.

    Attributes:
        columns: (batch, tokens), True at placeholders.
        streams: The streams that these tokens make.
        owners: The sample of each entry, for arguments whose first axis does not count samples.
        patches: What enters the encoder of the images, if the family declares it.
    """

    columns: Tensor
    streams: tuple[SoftStream, ...]
    owners: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    patches: Patches | None = None

    @property
    def leftover(self) -> bool:
        """Whether some placeholders are in no stream, such as the ends of an image's lines."""
        placed = sum(int((one.places >= 0).sum()) for one in self.streams)
        return placed != int(self.columns.sum())

    def entries(self, name: str, rows: Sequence[int]) -> list[int]:
        """Return the entries of an argument that belong to these samples, in their order."""
        return [entry for row in rows for entry, own in enumerate(self.owners[name]) if own == row]

    def take(self, rows: Sequence[int]) -> SoftTokens:
        """Return the soft tokens of these samples; they may repeat and be in any order."""
        index = torch.as_tensor(rows, dtype=torch.long)
        streams = tuple(one.take(rows) for one in self.streams)
        owners = {
            name: tuple(new for new, row in enumerate(rows) for own in every if own == row)
            for name, every in self.owners.items()
        }
        patches = None if self.patches is None else self.patches.take(rows)
        return SoftTokens(self.columns[index.to(self.columns.device)], streams, owners, patches)
