"""Check the inputs for NaN and infinite numbers before the model runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from whyformer.errors import InputError


def check_finite(arguments: Mapping[str, Any]) -> None:
    """Raise InputError if a floating input is NaN or infinite; masks may be infinite."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        bad = value.isnan() if "mask" in name else ~value.isfinite()
        if bad.any():
            raise InputError(
                f"'{name}' has {int(bad.sum())} NaN or infinite values of {value.numel()}",
                argument="inputs",
                remedy="Replace or remove them",
            )
