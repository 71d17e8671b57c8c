"""Rule sets of passes that read relevance at every block: LibraGrad's rules, and AttnLRP's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from whyformer.engine.rules.attention_maps import Hold, Record
from whyformer.engine.rules.detach.attention import detached_and_recorded, uniform_and_recorded
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.rules.operations.names import RuleTable


@dataclass(frozen=True)
class RuleSet:
    """The rules of a pass, and those of attention for a pass that also reads its maps.

    Attributes:
        table: {operation: rule}.
        recording: Gives the rules of attention that hand every map to `record` and `hold`.
    """

    table: RuleTable
    recording: Callable[[Record, Hold], RuleTable]


@functools.cache
def balanced_rules(products: str = "half", routers: str = "constant") -> RuleSet:
    """Return the rules of LibraGrad (Mehri et al. 2025).

    Attention weights, norm deviations and activation gates are constants. A product of two
    branches gives "half" to each, or by "gate" all to the branch without an activation. The
    weights of experts are "constant", or take "half" as well.
    """
    table = detach_table(
        attention="detach",
        norm="detach",
        activation="identity",
        product={"half": "uniform", "gate": "gate"}[products],
        routers=routers,
    )
    return RuleSet(table, detached_and_recorded)


@functools.cache
def attn_lrp_rules(gamma: float = 0.0) -> RuleSet:
    """Return the rules of AttnLRP (Achtibat et al. 2024), with LRP-gamma in linear layers."""
    table = detach_table(
        attention="uniform",
        norm="detach",
        activation="identity",
        product="uniform",
        linear="gamma" if gamma else "gradient",
        gamma=gamma,
    )
    return RuleSet(table, uniform_and_recorded)
