"""Does relevance keep its sum from layer to layer?"""

from __future__ import annotations

from whyformer.attribution import Reason
from whyformer.engine.result import MethodResult

# Relevance should keep its sum from layer to layer; a larger factor is a warning.
_SANE_GROWTH = 100.0


def drift_reasons(result: MethodResult) -> tuple[Reason, ...]:
    """Return a reason if the sum of relevance changed too much from the top layer to another.

    Only under the rules that normalise; the baselines' rules double it at every linear layer.
    """
    sums = [layer.relevance_sum for layer in result.layers]
    if result.rules != "ours" or not sums or sums[-1] is None:
        return ()
    for number, total in enumerate(sums):
        if total is None:
            continue
        growth = (total / sums[-1]).abs()
        sane = (growth > 1 / _SANE_GROWTH) & (growth < _SANE_GROWTH)
        if not sane.all():
            found = float(growth[~sane][0])
            text = (
                f"Relevance drifted: above layer {number} its sum is {found:.3g} times that of the"
                " top layer, and it should stay near 1. A denominator near 0 caused this. Do not"
                " trust this map; try float64, or a method without relevance rules."
            )
            samples = tuple((~sane).nonzero().flatten().tolist()) if sane.ndim else None
            return (Reason("drift", "warning", text, (f"layer {number}",), found, samples),)
    return ()
