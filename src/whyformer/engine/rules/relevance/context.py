"""What every relevance rule needs besides the call: the direction, the variant, the recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from whyformer.engine.rules.attention_maps import Hold, Record
from whyformer.engine.rules.relevance.switch import Direction

# rule(relevance, x, w, output, bias) -> the relevance of x, all as rows of tokens
LinearRule = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class RuleContext:
    """The settings of the relevance rules in one forward pass.

    No formula may refer to it: `record` and `hold` keep the graph alive, and the graph keeps its
    formulas.
    """

    direction: Direction
    record: Record
    hold: Hold
    linear_rule: LinearRule
    normalise: bool  # whether sums are rescaled to conserve relevance
