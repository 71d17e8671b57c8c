"""The account of a sample: the sums of scores and sinks, and their share of the output."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whyformer.render.view_model import SampleContent

# What each sink stands for.
SINKS = {
    "bias": "biases of linear layers and convolutions",
    "norm bias": "biases of norms",
    "mean": "the norms' means",
    "constant": "other constants",
    "activation": "activations that are not 0 at input 0",
    "softmax": "the softmax",
    "prefix": "class, distillation and register tokens",
    "baseline": "the value at the baseline",
    "shown twice": "tokens of images, whose patches show the same",
}
WIDE = 1.0  # the gauge ends here, or at the share if that is more
FARTHEST = 4.0  # a larger share is drawn as a full gauge


@dataclass(frozen=True)
class AccountLine:
    """A line of the account: name, meaning and sum."""

    name: str
    meaning: str
    value: float


@dataclass(frozen=True)
class Gauge:
    """Places on a gauge that is 100 wide: 0, the whole output, and the share."""

    zero: float
    one: float
    share: float

    @property
    def start(self) -> float:
        """The left end of the bar."""
        return min(self.zero, self.share)

    @property
    def length(self) -> float:
        """The length of the bar."""
        return abs(self.share - self.zero)


@dataclass(frozen=True)
class Account:
    """Tokens and sinks line by line, their sum, and a gauge if the share is finite."""

    lines: tuple[AccountLine, ...]
    total: float
    output: float
    share: float
    gauge: Gauge | None


def account(content: SampleContent) -> Account | None:
    """Return the account of one sample, or None if the method does not conserve."""
    if content.share is None:
        return None
    tokens = [
        AccountLine(name, f"tokens of {name}", value) for name, value in content.stream_totals
    ]
    sinks = [AccountLine(name, SINKS.get(name, "no token"), value) for name, value in content.sinks]
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
