"""What scores and sinks sum to, in words."""

from __future__ import annotations

import math

NOT_EXPECTED = "This method's scores are not expected to sum to the output."
CONSERVED = "Scores and sinks sum to the output."
SMOOTH = (
    ' GELU and tanh layers caused this. Pass activations="identity" for scores that sum exactly.'
)
CLOSE = 0.005  # by default, a sum this close to the output counts as equal


def describe_conservation(
    share: float | None, smooth: bool = False, tolerance: float = CLOSE
) -> str:
    """Return what a conservation of `share` means, as a sentence or two.

    Args:
        share: Sum of scores and sinks over the output; None if the method does not conserve.
        smooth: Whether activations kept their gradient, which loses relevance.
        tolerance: How far the share may be from 1.
    """
    if share is None:
        return NOT_EXPECTED
    if not math.isfinite(share):
        return "The output is 0, so there is no share to report."
    if abs(share - 1) < tolerance:
        return CONSERVED
    return _describe_loss(share) + SMOOTH * smooth


def percent(share: float) -> str:
    """Return a share as a percentage with two digits: 0.0123 is "1.2 %"."""
    size = abs(100 * share)
    text = f"{100 * share:.0f}" if size >= 10 or not size else f"{100 * share:.2g}"
    return f"{text} %".replace("-", "\N{MINUS SIGN}")


def _describe_loss(share: float) -> str:
    # As many decimals as it takes to tell the share from 100 %.
    decimals = max(0, math.ceil(-math.log10(abs(share - 1) * 100)))
    shown = f"{100 * share:.{decimals}f} %".replace("-", "\N{MINUS SIGN}")
    if 0 <= share < 1:
        return f"Scores and sinks sum to {shown} of the output; the rest was lost."
    if share > 1:
        return f"Scores and sinks sum to {shown} of the output, which is too much."
    return f"Scores and sinks sum to {shown} of the output: the total has the opposite sign."
