"""Masks of an image: object, background, and pixels that are ignored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from whyformer.datasets.foreign_errors import reading
from whyformer.image_files import open_image_file

OBJECT, BACKGROUND, IGNORED = 1, 0, -1


@dataclass(frozen=True)
class Mask:
    """A mask that is read on demand, and the meaning of its values."""

    source: Any  # the path of an image, or an array (height, width)
    foreground: tuple[int, ...] = ()  # the values of the object; all but 0 if empty
    ignore: tuple[int, ...] = ()  # values that are neither object nor background

    def read(self) -> numpy.ndarray[Any, numpy.dtype[numpy.int8]]:
        """Return 1 at the object, 0 at the background, -1 at ignored pixels (height, width)."""
        values = self.source
        if isinstance(values, str | Path):
            with reading(Path(values), "a mask"), open_image_file(values, "data") as image:
                # The numbers of a palette are the classes, not its colours.
                values = numpy.asarray(
                    image if image.mode in ("1", "L", "P", "I") else image.convert("L")
                )
        values = numpy.asarray(values).astype(numpy.int64)
        is_object = numpy.isin(values, self.foreground) if self.foreground else values != 0
        read = numpy.where(is_object, OBJECT, BACKGROUND).astype(numpy.int8)
        read[numpy.isin(values, self.ignore)] = IGNORED
        return read
