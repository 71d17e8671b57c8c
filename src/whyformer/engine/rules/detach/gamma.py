"""LRP-gamma in linear layers: contributions with the output's sign count (1 + gamma) times.

With z_k = sum over i of x_i w_ik, the bias as one more input of 1, the rule for inputs and outputs
of any sign is R_i = sum over k of R_k (x_i w_ik + gamma * (x_i w_ik)^s) / D_k, where ^s keeps the
contributions with the sign of z_k, and D_k is the sum of the numerators (Montavon et al. 2019).
(y)^s is half of y + sign(z_k) |y|, so products of absolute values give all of these sums:
D = z + gamma / 2 * (z + sign(z) |x| |w|).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.detach import linear
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations.arguments import bind
from whyformer.engine.rules.operations.linear_layer import run_linear
from whyformer.engine.rules.operations.names import Function, RuleTable
from whyformer.engine.rules.operations.stabilise import ratio, wide


class _Layer(NamedTuple):
    """A linear layer or convolution without its bias: x -> function(x, weight, **settings)."""

    function: Function
    weight: Tensor
    settings: dict[str, Any]

    def __call__(self, x: Tensor) -> Tensor:
        """x times the weights."""
        output: Tensor = self.function(x, self.weight, **self.settings)
        return output

    def absolute(self) -> _Layer:
        """The layer with the absolute values of its weights."""
        return self._replace(weight=self.weight.abs())

    def transpose(self, gradient: Tensor, like: Tensor) -> Tensor:
        """The gradient of the output times the transposed weights, in the shape of `like`."""
        if self.function is F.linear:
            return gradient @ self.weight
        if self.function is torch.mm:
            return gradient @ self.weight.T
        with torch.enable_grad():
            x = torch.zeros_like(like).requires_grad_()
            (back,) = torch.autograd.grad(self(x), x, gradient)
        return back


class _Gamma(AutogradFunction):
    """The output of `run`; backward, x gets the gradient for which x * gradient is R."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        run: Callable[[], Tensor],
        layer: _Layer,
        bias: Tensor | None,
        gamma: float,
    ) -> tuple[Tensor, Tensor]:
        output, absolute = run(), layer.absolute()(x.abs())
        if bias is not None:
            absolute = absolute + bias.abs()
        denominator = output + gamma / 2 * (output + output.sign() * absolute)
        part = ratio(output, denominator)  # R = part * gradient * numerator
        ctx.layer, ctx.gamma = layer, gamma
        ctx.save_for_backward(x, part, output.sign())
        ctx.mark_non_differentiable(part)
        return output, part

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Any, ...]:
        x, part, sign = ctx.saved_tensors
        arriving = gradient * part
        plain = ctx.layer.transpose(arriving, x)
        same = x.sign() * ctx.layer.absolute().transpose(arriving * sign, x)
        return plain + ctx.gamma / 2 * (plain + same), None, None, None, None


def _apply(
    ledger: Ledger,
    run: Callable[[], Tensor],
    layer: _Layer,
    x: Tensor,
    bias: Tensor | None,
    gamma: float,
) -> Tensor:
    """The layer's output, `run()`; what the rule gives to the bias is a sink."""
    output, part = _Gamma.apply(x, run, layer, bias, gamma)
    if bias is not None and ledger.active:
        same = bias + output.detach().sign() * bias.abs()
        ledger.book_constant("bias", output, part * (bias + gamma / 2 * same))
    return output


def gamma_linear(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any], gamma: float
) -> Tensor:
    """A linear layer or convolution by the gamma rule; the bias is a sink."""
    x, weight, bias = bind("input weight bias", args[:3], kwargs)
    settings = {k: v for k, v in kwargs.items() if k not in ("input", "weight", "bias")}
    settings |= dict(zip(("stride", "padding", "dilation", "groups"), args[3:], strict=False))
    if not is_tracked(x) or is_tracked(weight) or is_tracked(bias):
        return linear.linear(ledger, function, args, kwargs)
    if bias is not None and function is not F.linear:
        bias = bias.reshape(-1, *[1] * (weight.dim() - 2))
    layer = _Layer(function, wide(weight), settings)
    return _apply(ledger, lambda: run_linear(function, args, kwargs), layer, x, bias, gamma)


def gamma_addmm(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any], gamma: float
) -> Tensor:
    """beta * b + alpha * (x @ w), the linear layer of GPT-2, by the gamma rule; b is a sink."""
    bias, x, weight = bind("input mat1 mat2", args, kwargs)
    if not is_tracked(x) or is_tracked(weight) or is_tracked(bias):
        return linear.addmm(ledger, function, args, kwargs)
    layer = _Layer(torch.mm, weight * kwargs.get("alpha", 1), {})
    bias = bias * kwargs.get("beta", 1)
    return _apply(ledger, lambda: function(*args, **kwargs), layer, x, bias, gamma)


def table(gamma: float) -> RuleTable:
    """{operation: rule} for linear layers and convolutions."""
    return {
        **linear.TABLE,
        **dict.fromkeys(
            (F.linear, F.conv1d, F.conv2d, F.conv3d), partial(gamma_linear, gamma=gamma)
        ),
        **dict.fromkeys((torch.addmm, Tensor.addmm), partial(gamma_addmm, gamma=gamma)),
    }
