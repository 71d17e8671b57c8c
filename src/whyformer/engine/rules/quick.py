"""Linear layers with a quicker way back: torch's own gradient, by products that suit the shape."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules import blocked_matmul
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations.names import Function


class _Linear(AutogradFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(w)
        return F.linear(x, w, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (w,) = ctx.saved_tensors
        back = blocked_matmul.multiply(gradient.reshape(-1, gradient.shape[-1]), w)
        return back.reshape(*gradient.shape[:-1], w.shape[1]), None, None


def linear(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """x @ w.T + b, the gradient of x in slabs of w where that is quicker."""
    given = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
    x, w, bias = given["input"], given["weight"], given.get("bias")
    if is_tracked(x) and not is_tracked(w) and not is_tracked(bias) and _is_quicker(x, w):
        return _Linear.apply(x, w, bias)
    return function(*args, **kwargs)


def _is_quicker(x: Tensor, w: Tensor) -> bool:
    """Whether these are plain matrices that torch multiplies slowly."""
    plain = type(w) in (Tensor, nn.Parameter) and w.dim() == 2 and x.dtype == w.dtype
    return plain and blocked_matmul.pays(x.numel() // x.shape[-1], w)


TABLE: dict[Function, Any] = {F.linear: linear}
