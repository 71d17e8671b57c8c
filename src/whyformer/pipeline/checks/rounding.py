"""Did rounding change the scores of a method that reads sums whose terms nearly cancel?

Such scores differ in float32 between a sample alone and in a batch: torch adds up in another order.
"""

from __future__ import annotations

import torch

from whyformer.attribution import Reason, Trust
from whyformer.attribution.conservation import percent
from whyformer.attribution.trust import merge_trust
from whyformer.engine.result import MethodResult

# Of the largest score: a smaller change is not worth a note.
VISIBLE = 1e-4
# Rounding steps that the sums are off by: an estimate. On some processors, batch and single of a
# few tiny models differ by up to 2.4e-4 without a note (tests/methods/test_matrix.py).
_STEPS = 10


def rounding_reasons(result: MethodResult, method: str, dtype: torch.dtype) -> tuple[Reason, ...]:
    """Return a note about each sample whose scores may have changed visibly."""
    if result.rounding is None:
        return ()
    parts = []
    for sample, share in enumerate(result.rounding.tolist()):
        change = min(1.0, _STEPS * share)
        reasons = () if change <= VISIBLE else (_note(method, change, dtype),)
        parts.append((Trust(reasons), (sample,)))
    return merge_trust(parts).reasons


def _note(method: str, change: float, dtype: torch.dtype) -> Reason:
    precision = str(dtype).removeprefix("torch.")
    text = (
        f"Rounding in {precision} may have changed scores by about {percent(change)} of the largest"
        f" one, and changes them otherwise in another batch: {method} reads sums whose terms nearly"
        " cancel. For exact scores use a model in float64 (dtype=torch.float64, or model.double())."
    )
    return Reason("precision", "note", text, culprits=(method,), share=change)
