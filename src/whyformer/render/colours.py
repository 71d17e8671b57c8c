"""Signed colours: orange-red for positive scores, blue for negative ones, neutral for 0.

Orange-red and blue differ under every common colour blindness. The neutral colour of a theme is
close to its page, so that a score of 0 fades into the background. Colours are mixed in OKLab
(Ottosson 2020), where equal steps look equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

Colour = tuple[int, int, int]

BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)
STEPS = 20  # words are painted in whole steps, -STEPS .. STEPS

_TO_LMS = torch.tensor(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    dtype=torch.float64,
)
_TO_LAB = torch.tensor(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ],
    dtype=torch.float64,
)


def _linear(rgb: Tensor) -> Tensor:
    return torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def _gamma(linear: Tensor) -> Tensor:
    linear = linear.clamp(0, 1)
    return torch.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def _oklab(colour: Colour) -> Tensor:
    rgb = torch.tensor(colour, dtype=torch.float64) / 255
    return _TO_LAB @ (_TO_LMS @ _linear(rgb)) ** (1 / 3)


def _rgb(oklab: Tensor) -> Tensor:
    lms = (oklab @ torch.linalg.inv(_TO_LAB).T) ** 3
    return _gamma(lms @ torch.linalg.inv(_TO_LMS).T)


BROKEN: Colour = (125, 30, 140)  # of a score that is NaN or infinite; the scale has no such hue


@dataclass(frozen=True)
class Theme:
    """The colours of a page, and the two ends of the scale on it."""

    name: str
    page: Colour
    text: Colour
    quiet: Colour  # secondary text: units, captions
    line: Colour  # borders
    neutral: Colour
    warm: Colour  # +1
    cool: Colour  # -1

    def paint(self, values: Tensor) -> Tensor:
        """Return the colours of values in -1..1 of any shape, (..., 3) in 0..1."""
        strength = values.detach().double().nan_to_num().clamp(-1, 1).unsqueeze(-1)
        neutral, warm, cool = _oklab(self.neutral), _oklab(self.warm), _oklab(self.cool)
        end = torch.where(strength >= 0, warm, cool)
        painted = _rgb(neutral + (end - neutral) * strength.abs())
        broken = torch.tensor(BROKEN, dtype=painted.dtype) / 255
        return torch.where(values.isfinite().unsqueeze(-1), painted, broken)

    @cache  # noqa: B019 - three themes with 41 steps each: the cache stays small
    def colour(self, value: float) -> Colour:
        """Return the colour of one value in -1..1."""
        r, g, b = (self.paint(torch.tensor(value)) * 255).round().int().tolist()
        return r, g, b


LIGHT = Theme(
    "light",
    page=(255, 255, 255),
    text=(28, 30, 34),
    quiet=(92, 97, 106),
    line=(198, 200, 205),
    neutral=(245, 245, 245),
    warm=(235, 88, 38),
    cool=(56, 132, 214),
)
DARK = Theme(
    "dark",
    page=(20, 22, 26),
    text=(232, 233, 236),
    quiet=(160, 165, 174),
    line=(74, 78, 86),
    neutral=(38, 41, 47),
    warm=(208, 68, 18),
    cool=(24, 104, 190),
)

# For an unknown background: strength is saturation, and mid-grey is neutral on light and dark.
EITHER = Theme(
    "either",
    page=(110, 112, 116),
    text=WHITE,
    quiet=WHITE,
    line=WHITE,
    neutral=(110, 112, 116),
    warm=(208, 68, 18),
    cool=(24, 104, 190),
)


def step(value: float) -> int:
    """Return the palette step of a value in -1..1, -STEPS..STEPS; 0 only for 0."""
    if value != value or value == 0:
        return 0
    whole = max(1, round(min(abs(value), 1.0) * STEPS))
    return whole if value > 0 else -whole


def luminance(colour: Colour) -> float:
    """Return the relative luminance of WCAG 2.2, 0 (black) to 1 (white)."""
    r, g, b = _linear(torch.tensor(colour, dtype=torch.float64) / 255).tolist()
    return float(0.2126 * r + 0.7152 * g + 0.0722 * b)


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast ratio of WCAG 2.2, 1 to 21; body text needs 4.5."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def ink(background: Colour) -> Colour:
    """Return black or white, whichever has more contrast: always at least 4.58."""
    return max((BLACK, WHITE), key=lambda text: contrast(text, background))


def css(colour: Colour) -> str:
    """Return the colour as #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
