"""Round numbers for the ticks of an axis, and labels cut to a length."""

from __future__ import annotations

import math

from whyformer.render.numbers import MINUS


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers between `low` and `high`, about that many."""
    raw = (high - low) / about
    unit: float = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def tick_text(value: float, percent: bool = False) -> str:
    """Return a tick's number with a true minus."""
    text = f"{100 * value:.6g} %" if percent else f"{value:.6g}"
    return text.replace("-", MINUS)


def cut_label(text: str, longest: int) -> str:
    """Return the text in at most `longest` characters, an ellipsis at its end if it is cut."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
