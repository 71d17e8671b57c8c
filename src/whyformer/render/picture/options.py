"""Options of pictures: size, resolution, colours, special tokens, and the original photo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch
from torch import Tensor

from whyformer.errors import InputError, OptionError
from whyformer.render.colours import LIGHT, Colour, Theme
from whyformer.render.panels import ImagePanel, Panel, TextPanel
from whyformer.render.photo import find_crop, read_photo
from whyformer.render.view_model import SampleContent

LARGEST_DPI = 1200


@dataclass(frozen=True)
class MapTheme(Theme):
    """The light theme with the colours of a map of matplotlib: -1 at its start, 1 at its end."""

    colour_map: str = ""

    def paint(self, values: Tensor) -> Tensor:
        """Return the colours of values in -1..1 of any shape, (..., 3) in 0..1."""
        from matplotlib import colormaps

        places = (values.detach().double().nan_to_num().clamp(-1, 1) + 1) / 2
        return torch.as_tensor(numpy.asarray(colormaps[self.colour_map](places.numpy())))[..., :3]


def picture_theme(colours: str | None) -> Theme:
    """Return the theme of pictures in the named colours.

    Raises:
        OptionError: There is no such colour map.
    """
    if colours is None:
        return LIGHT
    from matplotlib import colormaps

    if colours not in colormaps:
        raise OptionError(
            f"there is no colour map {colours!r}",
            argument="colours",
            remedy="Pass a diverging map of matplotlib, such as 'RdBu_r', 'PuOr_r' or 'coolwarm'",
        )
    ends = [_colour(colormaps[colours](place)) for place in (0.0, 0.5, 1.0)]
    return MapTheme(
        colours, LIGHT.page, LIGHT.text, LIGHT.quiet, LIGHT.line, ends[1], ends[2], ends[0], colours
    )


def _colour(rgba: Sequence[float]) -> Colour:
    red, green, blue = (round(255 * part) for part in rgba[:3])
    return red, green, blue


def check_size(size: float | None, dpi: int | None) -> None:
    """Raise OptionError if the width in inches or the resolution is out of range."""
    for name, value, most in (("size", size, 100), ("dpi", dpi, LARGEST_DPI)):
        if value is None:
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not 0 < value <= most:
            raise OptionError(
                f"{name}={value!r} is out of range",
                argument=name,
                remedy=f"Pass a number above 0 and up to {most}",
            )


def without_specials(content: SampleContent) -> SampleContent:
    """Return the content without the tokens that the tokenizer added, such as [CLS]."""
    return replace(content, panels=tuple(map(_own_words, content.panels)))


def _own_words(panel: Panel) -> Panel:
    if not isinstance(panel, TextPanel):
        return panel
    words = tuple(word for word in panel.words if not word.special)
    return panel if panel.roles or not words else replace(panel, words=words)


def with_photos(contents: Sequence[SampleContent], photo: Any) -> list[SampleContent]:
    """Return the contents with the original photo of each sample.

    Raises:
        InputError: There are more or fewer photos than samples, a photo cannot be read, or it is
            not the one that the model saw.
    """
    if photo is None:
        return list(contents)
    photos = list(photo) if isinstance(photo, list | tuple) else [photo]
    if len(photos) != len(contents):
        raise InputError(
            f"there are {len(photos)} photos for {len(contents)} samples",
            argument="photo",
            remedy="Pass one photo per sample",
        )
    return [_with_photo(one, read_photo(p)) for one, p in zip(contents, photos, strict=True)]


def _with_photo(content: SampleContent, photo: Tensor) -> SampleContent:
    if not any(isinstance(p, ImagePanel) and p.image is not None for p in content.panels):
        raise InputError(
            "photo= is for explanations of images, and these inputs have none",
            argument="photo",
            remedy="Leave it out",
        )
    return replace(
        content,
        panels=tuple(
            replace(panel, photo=photo, crop=find_crop(photo, panel.image))
            if isinstance(panel, ImagePanel) and panel.image is not None
            else panel
            for panel in content.panels
        ),
    )
