"""What a method returns: one frozen value with scores, sinks, maps, layers and pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whyformer.attribution import Nodes, Reason
from whyformer.engine.streamed_layers import AnyLayer
from whyformer.models.families import Pair

if TYPE_CHECKING:
    from whyformer.engine.passes.forward_only import ForwardPass
    from whyformer.engine.passes.tower import TowerRelevance

Scores = dict[str, Tensor]  # (batch, tokens) by stack


@dataclass(frozen=True)
class Choice:
    """The method that another one chose, with its options, and why."""

    method: str
    options: Mapping[str, Any]
    why: str


@dataclass(frozen=True)
class MethodResult:
    """The scores of one method on one batch, and what else it found.

    Attributes:
        forward: The explained value, and whose tokens the scores are about.
        scores: (batch, tokens) by stack, prefix tokens and padding included.
        sinks: Relevance that no token holds, (batch,) by name.
        leaks: Relevance lost in operations without a rule, (batch,) by operation.
        maps: Relevancy between stacks, (batch, query tokens, key tokens).
        layers: What was read of each attention layer, in the order they ran.
        deciding: Weights of the tokens that the head reads, (batch, tokens) by stack.
        pixels: Relevance per pixel, (batch, height, width), if the method reaches pixels.
        errors: The standard error of each score, if scores are estimated from samples.
        nodes: Relevance of inner nodes by stack, if the user keeps them.
        notes: What the user should know about how these scores came about.
        reasons: What the pass found that decides how far to trust the scores.
        choice: The method that computed these scores, if the named one only chooses.
        patches: Scores of the patches that enter an image encoder, and that encoder's sinks, if
            the run asks for them.
        rules: The rule set of the relevance pass, "ours" or "orig"; None if there was none.
        rounding: The share of the scores that one rounding step changes, (batch,); None if the
            method divides by no sums that may cancel.
    """

    forward: ForwardPass
    scores: Scores
    sinks: Mapping[str, Tensor] = field(default_factory=dict)
    leaks: Mapping[str, Tensor] = field(default_factory=dict)
    maps: Mapping[Pair, Tensor] = field(default_factory=dict)
    layers: tuple[AnyLayer, ...] = ()
    deciding: Mapping[str, Tensor] = field(default_factory=dict)
    pixels: Tensor | None = None
    errors: Scores | None = None
    nodes: Mapping[str, Nodes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    choice: Choice | None = None
    patches: TowerRelevance | None = None
    rules: str | None = None
    rounding: Tensor | None = None
