"""Linear layers and convolutions: relevance follows the gradient, the bias is a sink."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.detach.product import share
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations.linear_layer import run_addmm, run_linear
from whyformer.engine.rules.operations.names import CONVOLUTION, GROUPED, Function, RuleTable


def linear(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """A linear layer or convolution; the bias is a sink, tracked weights take half."""
    x, weight, *_ = args
    if ledger.active and is_tracked(x) and is_tracked(weight):
        args = (share(x, 0.5), share(weight, 0.5), *args[2:])
    output = run_linear(function, args, kwargs)
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    if bias is not None and not is_tracked(bias):
        channels_first = function is not F.linear
        if channels_first and output.dim() > 1:
            bias = bias.reshape(-1, *[1] * (output.dim() - 2))
        ledger.book_constant("bias", output, bias)
    return output


def addmm(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """beta * b + alpha * (x @ w), the linear layer of GPT-2; what is constant is a sink."""
    bias, left, right = args[:3]
    depends = is_tracked(left), is_tracked(right)
    if ledger.active and all(depends):
        left, right = share(left, 0.5), share(right, 0.5)
    output = run_addmm(function, (bias, left, right, *args[3:]), kwargs)
    scaled = bias * kwargs.get("beta", 1)
    if not is_tracked(bias):
        ledger.book_constant("bias", output, scaled)
    elif not any(depends):
        ledger.book_constant("constant", output, output.detach() - scaled.detach())
    return output


def grouped(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """The linear layers of all experts at once; tracked weights take half."""
    left, right = args[:2]
    if ledger.active and is_tracked(left) and is_tracked(right):
        left, right = share(left, 0.5), share(right, 0.5)
    return function(left, right, *args[2:], **kwargs)


TABLE: RuleTable = {
    **dict.fromkeys(GROUPED, grouped),
    **dict.fromkeys(CONVOLUTION | {F.linear}, linear),
    **dict.fromkeys(
        (torch.addmm, Tensor.addmm, torch.addbmm, Tensor.addbmm, torch.addmv, Tensor.addmv),
        addmm,
    ),
}
