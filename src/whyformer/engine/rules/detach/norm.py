"""Norms with a detached deviation: the LN rule (Ali et al. 2022, eqs. 10-12)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations.arguments import bind
from whyformer.engine.rules.operations.batch_norm import run_batch_norm
from whyformer.engine.rules.operations.names import POWER, STATISTIC, Function, RuleTable
from whyformer.engine.rules.operations.own_function import apply_own


class _DetachedLayerNorm(AutogradFunction):
    """Layer norm whose backward treats 1/deviation as a constant.

    With `detach_mean` the mean is one too: its part of the output is added to `means`. The backward
    calls `bias_notes` with the gradient of the output.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        shape: list[int],
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        detach_mean: bool,
        means: list[Tensor],
    ) -> Tensor:
        output, mean, rstd = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(rstd, weight)
        ctx.dims = -1 if len(shape) == 1 else tuple(range(-len(shape), 0))
        ctx.detach_mean, ctx.bias_notes = detach_mean, []
        if detach_mean:
            centre = -mean * rstd
            means.append(centre if weight is None else centre * weight)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        rstd, weight = ctx.saved_tensors
        for note in ctx.bias_notes:
            note(gradient)
        scaled = gradient.clone() if weight is None else gradient * weight
        if not ctx.detach_mean:
            scaled.sub_(scaled.mean(ctx.dims, keepdim=True))
        return (scaled.mul_(rstd), *[None] * 6)


def layer_norm(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any], detach_mean: bool
) -> Tensor:
    """(x - mean) / deviation * weight + bias; the bias, and a detached mean, are sinks."""
    x, shape, weight, bias, eps = bind(
        "input normalized_shape weight bias eps", args, kwargs, eps=1e-5
    )
    if not is_tracked(x):
        return function(*args, **kwargs)
    shape = [shape] if isinstance(shape, int) else list(shape)
    means: list[Tensor] = []
    output = apply_own(_DetachedLayerNorm, x, shape, weight, bias, eps, detach_mean, means)
    if bias is not None:
        ledger.book_constant("norm_bias", output, bias)
    for mean in means:
        ledger.book_constant("mean", output, mean)
    return output


def rms_norm(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """x / root mean square * weight with a detached root mean square."""
    x, shape, weight, eps = bind("input normalized_shape weight eps", args, kwargs)
    if not is_tracked(x):
        return function(*args, **kwargs)
    dims = tuple(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    scale = torch.rsqrt(x.detach().pow(2).mean(dims, keepdim=True) + eps)
    return x * scale if weight is None else x * scale * weight


def group_norm(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Group norm with a detached deviation; the bias is a sink."""
    x, groups, weight, bias, eps = bind("input num_groups weight bias eps", args, kwargs, eps=1e-5)
    if not is_tracked(x):
        return function(*args, **kwargs)
    grouped = x.reshape(x.shape[0], groups, -1)
    scale = torch.rsqrt(grouped.detach().var(-1, correction=0, keepdim=True) + eps)
    output = ((grouped - grouped.mean(-1, keepdim=True)) * scale).reshape(x.shape)
    channels = (-1, *[1] * (x.dim() - 2))
    if weight is not None:
        output = output * weight.reshape(channels)
    if bias is not None:
        output = output + bias.reshape(channels)
        ledger.book_constant("norm_bias", output, bias.reshape(channels))
    return output


def batch_norm(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Batch norm in eval mode, which is affine: its offset is a sink."""
    output = run_batch_norm(function, args, kwargs)
    x = args[0] if args else kwargs["input"]
    if is_tracked(x) and ledger.active:
        with torch.no_grad():
            offset = function(torch.zeros_like(x), *args[1:], **kwargs)
        ledger.book_constant("norm_bias", output, offset)
    return output


def statistic(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """rsqrt, std, norm, ... detached: a norm written out by hand divides by them."""
    output = function(*args, **kwargs)
    if isinstance(output, Tensor):
        return output.detach()
    deviation, mean = output  # var_mean and std_mean; the mean is subtracted
    return deviation.detach(), mean


def detach_roots(table: RuleTable) -> RuleTable:
    """The table, in which x ** -0.5 and other roots are statistics."""

    def power(
        ledger: Ledger,
        function: Function,
        args: tuple,
        kwargs: dict[str, Any],
        rule: Function | None = None,
    ) -> Any:
        _, exponent = bind("input exponent", args, kwargs)
        if isinstance(exponent, (int, float)) and (exponent < 0 or exponent == 0.5):
            return statistic(ledger, function, args, kwargs)
        if rule is not None:
            return rule(ledger, function, args, kwargs)
        ledger.keeps_sum = False  # the method's choice: activations follow the gradient
        return function(*args, **kwargs)

    return {**table, **{f: partial(power, rule=table.get(f)) for f in POWER}}


def table(detach_mean: bool) -> RuleTable:
    """{operation: rule} for all norms; `detach_mean` also makes the mean a constant."""
    return {
        **dict.fromkeys(
            (F.layer_norm, torch.layer_norm), partial(layer_norm, detach_mean=detach_mean)
        ),
        **dict.fromkeys((F.rms_norm, torch.rms_norm), rms_norm),
        **dict.fromkeys((F.group_norm, torch.group_norm), group_norm),
        **dict.fromkeys((F.batch_norm, torch.batch_norm), batch_norm),
        **dict.fromkeys(STATISTIC, statistic),
    }
