"""How far numbers may be apart before rounding cannot explain it, by precision."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Tolerance(NamedTuple):
    """What rounding may do: a share of the value, plus a share of the terms it is a sum of."""

    value: float
    terms: float


# Measured on the bundled and on tiny models, with terms as the unit: 1e-15 in float64, 2e-7 in
# float32, 3e-4 in float16, 2e-3 in bfloat16.
_BY_PRECISION = {
    torch.float64: Tolerance(1e-8, 1e-12),
    torch.float32: Tolerance(1e-3, 1e-5),
    torch.float16: Tolerance(1e-2, 2e-3),
    torch.bfloat16: Tolerance(5e-2, 1e-2),
}


def tolerance_of(dtype: torch.dtype) -> Tolerance:
    """Return the tolerance for results that were computed in this precision."""
    return _BY_PRECISION.get(dtype, _BY_PRECISION[torch.bfloat16])
