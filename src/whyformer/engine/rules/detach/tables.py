"""The table of detach rules that a method runs, by its choice for each kind of operation.

| operation | choices |
|---|---|
| linear | "gradient": none; "gamma": LRP-gamma |
| attention | "gradient": none; "detach": weights are constants (AH rule); "uniform": AttnLRP |
| norm | "gradient": none; "detach": the deviation is a constant (LN rule) |
| activation | "gradient": none; "identity": relevance passes unchanged |
| product | "gradient": none; "gate": gates are constants; "uniform": half to each factor |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from whyformer.engine.rules.detach import activation as activations
from whyformer.engine.rules.detach import attention as attentions
from whyformer.engine.rules.detach import gamma as gammas
from whyformer.engine.rules.detach import linear as linears
from whyformer.engine.rules.detach import norm as norms
from whyformer.engine.rules.detach import product as products
from whyformer.engine.rules.detach import recurrence, residual, writing
from whyformer.engine.rules.operations.names import RuleTable

_LINEAR: dict[str, Callable[[float], RuleTable]] = {
    "gradient": lambda gamma: linears.TABLE,
    "gamma": gammas.table,
}
_ATTENTION: dict[str, RuleTable] = {
    "gradient": {},
    "detach": {**recurrence.TABLE, **attentions.DETACHED},
    "uniform": {**recurrence.TABLE, **attentions.UNIFORM},
}
_NORM: dict[str, Callable[[bool], RuleTable]] = {
    "gradient": lambda detach_mean: {},
    "detach": norms.table,
}
_ACTIVATION: dict[str, RuleTable] = {"gradient": {}, "identity": activations.TABLE}
_PRODUCT: dict[str, RuleTable] = {
    "gradient": products.PLAIN,
    "gate": products.GATE,
    "uniform": products.UNIFORM,
}


# The same choices give the same table: a tape knows by it that a forward pass was recorded.
@lru_cache(maxsize=64)
def detach_table(
    attention: str = "gradient",
    norm: str = "gradient",
    activation: str = "gradient",
    product: str = "gradient",
    detach_mean: bool = False,
    linear: str = "gradient",
    gamma: float = 0.0,
    routers: str = "constant",
) -> RuleTable:
    """{operation: rule} for these choices.

    `detach_mean` also makes a norm's mean a constant; `gamma` is that of linear="gamma". With
    attention="detach", routers="half" gives routers of experts half of the relevance.
    """
    times, attends = _PRODUCT[product], _ATTENTION[attention]
    if attention == "detach":
        times = attentions.detach_in_products(times, 0.5 if routers == "half" else 0.0)
        attends = attentions.share_with_routers(attends) if routers == "half" else attends
    activations_table = _ACTIVATION[activation]
    if norm == "detach":
        activations_table = norms.detach_roots(activations_table)
    return {
        **_LINEAR[linear](gamma),
        **residual.TABLE,
        **writing.TABLE,
        **times,
        **activations_table,
        **attends,
        **_NORM[norm](detach_mean),
    }
