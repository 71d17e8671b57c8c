"""Methods of the conservative tier as choices: which rule for attention, norm, activation, product.

| method | attention | norm | activation | product |
|---|---|---|---|---|
| gradient x input | gradient | gradient | gradient | gradient |
| LRP (AH) | detach | gradient | gradient | gradient |
| LRP (LN) | gradient | detach | gradient | gradient |
| LRP (AH+LN) | detach | detach | gradient or identity | gradient or gate |
| AttnLRP | uniform | detach | identity | uniform |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whyformer.engine.rules.detach import activation as activations
from whyformer.engine.rules.detach import attention as attentions
from whyformer.engine.rules.detach import linear, residual
from whyformer.engine.rules.detach import norm as norms
from whyformer.engine.rules.detach import product as products
from whyformer.engine.rules.operations.names import Function

Table = Mapping[Function, Any]

_ATTENTION: dict[str, Table] = {
    "gradient": {},
    "detach": attentions.DETACHED,
    "uniform": attentions.UNIFORM,
}
_NORM: dict[str, Callable[[bool], Table]] = {
    "gradient": lambda detach_mean: {},
    "detach": norms.table,
}
_ACTIVATION: dict[str, Table] = {"gradient": {}, "identity": activations.TABLE}
_PRODUCT: dict[str, Table] = {
    "gradient": products.PLAIN,
    "gate": products.GATE,
    "uniform": products.UNIFORM,
}


def conservative(
    attention: str = "gradient",
    norm: str = "gradient",
    activation: str = "gradient",
    product: str = "gradient",
    detach_mean: bool = False,
) -> Table:
    """{operation: rule} of one method; the forward value is the model's own in all of them."""
    return {
        **linear.TABLE,
        **residual.TABLE,
        **_PRODUCT[product],
        **_ACTIVATION[activation],
        **_ATTENTION[attention],
        **_NORM[norm](detach_mean),
    }
