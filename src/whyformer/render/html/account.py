"""How the scores were added up: who holds how much, and what share of the output that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whyformer.render.view_model import SampleContent

# What took the relevance, by the sink's name as it is shown.
SINKS = {
    "bias": "biases of linear layers and convolutions",
    "norm bias": "biases of norms",
    "mean": "the norms' means",
    "constant": "other numbers that the model adds",
    "activation": "activations that are not 0 at 0",
    "softmax": "what a softmax leaves over",
    "prefix": "class, distillation and register tokens",
    "baseline": "the value at the baseline",
}
WIDE = 1.0  # the gauge ends here, or at the share itself where that is more
FARTHEST = 4.0  # a share beyond this is drawn as a full gauge: the number says the rest


@dataclass(frozen=True)
class Line:
    """A line of the account: who, what that is, and how much of the output."""

    name: str
    meaning: str
    value: float


@dataclass(frozen=True)
class Gauge:
    """Places on a gauge 0..100 wide: nothing, all of the output, and what is accounted for."""

    zero: float
    one: float
    share: float

    @property
    def start(self) -> float:
        """Where the bar starts, at its left end."""
        return min(self.zero, self.share)

    @property
    def length(self) -> float:
        """How long the bar is."""
        return abs(self.share - self.zero)


@dataclass(frozen=True)
class Account:
    """Tokens and sinks line by line, their sum, and the gauge where there is a share to show."""

    lines: tuple[Line, ...]
    total: float
    output: float
    share: float
    gauge: Gauge | None


def account(content: SampleContent) -> Account | None:
    """The account of one sample; None where the method promises no sum."""
    if content.share is None:
        return None
    tokens = [Line(name, f"tokens of {name}", value) for name, value in content.stream_totals]
    sinks = [Line(name, SINKS.get(name, "no token"), value) for name, value in content.sinks]
    lines = (*tokens, *sinks)
    return Account(
        lines,
        sum(line.value for line in lines),
        content.output,
        content.share,
        _gauge(content.share),
    )


def _gauge(share: float) -> Gauge | None:
    if not math.isfinite(share):
        return None
    shown = max(-FARTHEST, min(FARTHEST, share))
    low, high = min(0.0, shown), max(WIDE, shown)
    zero, one, at = (100 * (value - low) / (high - low) for value in (0.0, 1.0, shown))
    return Gauge(zero, one, at)
