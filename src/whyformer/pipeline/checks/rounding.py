"""Did rounding change the scores of a method that divides by sums which nearly cancel?"""
from __future__ import annotations

import torch

from whyformer.attribution import Reason
from whyformer.engine.result import MethodResult


def rounding_reasons(result: MethodResult, dtype: torch.dtype) -> tuple[Reason, ...]:
    if result.rounding is None:
        return ()
    return tuple(Reason("precision","ok","x",share=float(one),samples=(i,)) for i, one in enumerate(result.rounding))
