"""Linear layers and convolutions: relevance follows the gradient, the bias is a sink."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations.names import Function


def linear(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """A linear layer or convolution; the bias is a sink."""
    output = function(*args, **kwargs)
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    if bias is not None:
        channels_first = function is not F.linear
        if channels_first and output.dim() > 1:
            bias = bias.reshape(-1, *[1] * (output.dim() - 2))
        ledger.book_constant("bias", output, bias)
    return output


def addmm(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """beta * b + alpha * (x @ w), the linear layer of GPT-2; b is a sink."""
    output = function(*args, **kwargs)
    if not args[0].requires_grad:
        ledger.book_constant("bias", output, args[0] * kwargs.get("beta", 1))
    return output


TABLE: dict[Function, Any] = {
    **dict.fromkeys((F.linear, F.conv1d, F.conv2d, F.conv3d), linear),
    **dict.fromkeys(
        (torch.addmm, Tensor.addmm, torch.addbmm, torch.addmv),
        addmm,
    ),
}
