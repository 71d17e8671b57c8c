"""Numbers as text: a sign, a true minus and three digits."""

from __future__ import annotations

import math

MINUS = "\N{MINUS SIGN}"


def number(value: float, span: float | None = None) -> str:
    """Return a score with its sign, a true minus, and three digits.

    With `span`, all numbers get the decimals that three digits of `span` need, so that they line
    up in a column.
    """
    size = abs(span if span else value)
    if not math.isfinite(value) or not 1e-4 <= size < 1e6:
        text = f"{value:+.2e}" if value else "0"
    else:
        text = f"{value:+.{max(0, 2 - math.floor(math.log10(size)))}f}"
    return (text if text.strip("+-0.") else text.lstrip("+-")).replace("-", MINUS)


def chance(probability: float | None) -> str:
    """Return a probability in per cent with one decimal, or "" if there is none.

    Only 0 and 1 are shown as 0 % and 100 %.
    """
    if probability is None or not math.isfinite(probability):
        return ""
    share = 100 * probability
    if 0 < share < 0.05:
        return "< 0.1 %"
    if 99.95 < share < 100:
        return "> 99.9 %"
    return f"{share:.0f} %" if share in (0, 100) else f"{share:.1f} %"
