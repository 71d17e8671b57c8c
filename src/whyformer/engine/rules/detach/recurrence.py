"""Recurrences with detached parameters: state spaces, decayed linear attention, delta rules.

In h_t = decay_t * h_(t-1) + B_t x_t and y_t = C_t h_t, the output is linear in x if everything that
decides the mixing is a constant (MambaLRP, Jafari et al. 2024): what the AH rule does for softmax.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations.names import EXPONENTIAL, Function, RuleTable
from whyformer.models.recurrences import mixing_parameter


def decay(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """exp(x) as a constant inside the blocks: a decay, or a weight that is normalised later.

    Outside of them it may be what is explained (a probability, a box), so it keeps its gradient.
    """
    if ledger.place is None:
        return ledger.measure(function, args, kwargs)
    return _constant(ledger, function(*args, **kwargs))


def detach_parameter(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """What decides how a recurrence mixes tokens (query, key, step, B, C, ...), as a constant."""
    return _constant(ledger, args[0])


def _constant(ledger: Ledger, tensor: Tensor) -> Tensor:
    if is_tracked(tensor):
        ledger.count("recurrence")
    return tensor.detach()


def solve(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The solution of A x = b, linear in b; the matrix is a constant."""
    matrix, right = args[:2]
    return function(matrix.detach(), right, *args[2:], **kwargs)


TABLE: RuleTable = {
    **dict.fromkeys(EXPONENTIAL, decay),
    mixing_parameter: detach_parameter,
    torch.linalg.solve_triangular: solve,
    torch.linalg.solve: solve,
}
