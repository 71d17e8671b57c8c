"""The relevance tier: every operation under a switch (Chefer et al., CVPR 2021).

"ours" is the paper's method; "orig" are the rules of its LRP baselines, which differ in linear
layers and in skip connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function as AutogradFunction
from torch.nn import grad

from whyformer.errors import ModelError
from whyformer.rules import marks, shares
from whyformer.rules.attention import FusedCall, spelled_out
from whyformer.rules.ledger import Ledger, tracked
from whyformer.rules.operations import (
    ACTIVATION,
    ADD,
    CHOOSE,
    DIVIDE,
    JOIN,
    MATMUL,
    MULTIPLY,
    NEGATE,
    NORM,
    PIECEWISE_LINEAR,
    REVERSED_SUBTRACT,
    SOFTMAX,
    SQUASHING,
    STATISTIC,
    SUBTRACT,
    Function,
    named,
)
from whyformer.rules.stabilise import ratio
from whyformer.rules.switch import Direction, passed, switched

LINEAR_RULES: dict[str, Callable[..., Tensor]] = {
    "ours": shares.positive_linear,
    "orig": lambda relevance, x, w, output, bias: shares.separate_linear(relevance, x, w),
}


class _Linear(AutogradFunction):
    """x @ w.T + bias; rows that nothing comes back to cost nothing on the way back."""

    @staticmethod
    def forward(
        ctx: Any, direction: Direction, rule: Any, x: Tensor, w: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        output = F.linear(x, w, bias)
        ctx.direction, ctx.rule = direction, rule
        ctx.save_for_backward(x, w, bias, output)
        return output

    @staticmethod
    def backward(ctx: Any, passed: Tensor | None) -> tuple[Any, ...]:
        if passed is None:
            return (None,) * 5
        x, w, bias, output = ctx.saved_tensors
        arriving = passed.reshape(-1, passed.shape[-1])
        rows = _arriving_rows(arriving)
        some = len(rows) < len(arriving)

        def taken(tensor: Tensor) -> Tensor:
            flat = tensor.reshape(-1, tensor.shape[-1])
            return flat[rows] if some else flat

        arriving = taken(arriving)
        if ctx.direction.relevance:
            back = ctx.rule(arriving, taken(x), w, taken(output), bias)
        else:
            back = arriving @ w
        if some:
            back = back.new_zeros(x.shape).reshape(-1, x.shape[-1]).index_copy_(0, rows, back)
        return None, None, back.reshape(x.shape), None, None


def _arriving_rows(arriving: Tensor) -> Tensor:
    """Which rows have anything in them; all of them where a glance finds no empty one."""
    glance = arriving[:, :: max(1, arriving.shape[1] // 8)]
    if glance.any(-1).all():
        return torch.arange(len(arriving), device=arriving.device)
    return arriving.any(-1).nonzero().flatten()


class _Matmul(AutogradFunction):
    """left @ right, both of them activations."""

    @staticmethod
    def forward(ctx: Any, direction: Direction, left: Tensor, right: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        output = left @ right
        ctx.direction = direction
        ctx.save_for_backward(left, right, output)
        return output

    @staticmethod
    def backward(ctx: Any, passed: Tensor | None) -> tuple[Any, ...]:
        if passed is None:
            return None, None, None
        left, right, output = ctx.saved_tensors
        if ctx.direction.relevance:
            passed = ratio(passed, output, shares.EPSILON)
        to_left = to_right = None
        if ctx.needs_input_grad[1]:
            to_left = (passed @ right.transpose(-2, -1)).sum_to_size(left.shape)
        if ctx.needs_input_grad[2]:
            to_right = (left.transpose(-2, -1) @ passed).sum_to_size(right.shape)
        if ctx.direction.relevance:
            to_left = None if to_left is None else to_left.mul_(left).div_(2)
            to_right = None if to_right is None else to_right.mul_(right).div_(2)
        return None, to_left, to_right


class Relevance:
    """The rules of one forward pass, whose graph then serves gradient and relevance."""

    def __init__(
        self, direction: Direction, rules: str, record: Callable[[Tensor], Tensor]
    ) -> None:
        self.direction = direction
        self.record = record
        self.linear_rule = LINEAR_RULES[rules]
        self.normalise = rules == "ours"

    def table(self) -> Mapping[Function, Any]:
        """{operation: rule}; operations that only rearrange need none."""
        rules: dict[Function, Any] = {
            **dict.fromkeys(PIECEWISE_LINEAR | NORM | NEGATE, self._through),
            **dict.fromkeys(ACTIVATION, self._through),
            **dict.fromkeys(SQUASHING, partial(self._through, mark=marks.GATE)),
            **dict.fromkeys(STATISTIC, partial(self._nothing, mark=marks.STATISTIC)),
            **dict.fromkeys(SOFTMAX, partial(self._through, mark=marks.ATTENTION)),
            **dict.fromkeys(ADD, partial(self._add, sign=1)),
            **dict.fromkeys(SUBTRACT, partial(self._add, sign=-1)),
            **dict.fromkeys(REVERSED_SUBTRACT, self._reversed_subtract),
            **dict.fromkeys(MULTIPLY, self._multiply),
            **dict.fromkeys(DIVIDE, self._divide),
            **dict.fromkeys(MATMUL, self._matmul),
            **dict.fromkeys(named("mean"), partial(self._average, mean=True)),
            **dict.fromkeys(named("sum"), partial(self._average, mean=False)),
            F.linear: self._linear,
            F.scaled_dot_product_attention: self._fused,
            **dict.fromkeys((torch.addmm, Tensor.addmm), self._addmm),
            **{op: partial(self._convolution, back=back) for op, back in _CONVOLUTIONS.items()},
            torch.einsum: self._einsum,
            **dict.fromkeys(JOIN | CHOOSE, _as_it_is),
        }
        return rules

    # -- rules, each (ledger, function, args, kwargs) ----------------------------------------------

    def _through(
        self, ledger: Ledger, function: Function, args: tuple, kwargs: Any, mark: str | None = None
    ) -> Any:
        """f(x): relevance passes unchanged."""
        output = function(*args, **kwargs)
        alike = isinstance(output, Tensor) and args and output.shape == args[0].shape
        if alike and tracked(args[0]):
            output = passed(self.direction, output, args[0])
        return marks.mark(output, mark) if mark and isinstance(output, Tensor) else output

    def _nothing(
        self, ledger: Ledger, function: Function, args: tuple, kwargs: Any, mark: str
    ) -> Any:
        """What a norm divides by: it takes no relevance."""
        output = function(*args, **kwargs)
        if not isinstance(output, Tensor):
            return output
        if tracked(output):
            output = switched(self.direction, lambda r, inputs, out: (), output, ())
        return marks.mark(output, mark)

    def _linear(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        x, w, bias = _named(("input", "weight", "bias"), args, kwargs)
        if not tracked(x):
            return function(x, w, bias)
        return _Linear.apply(self.direction, self.linear_rule, x, w, bias)

    def _addmm(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        bias, x, w = args[:3]
        if kwargs or not tracked(x) or tracked(w) or tracked(bias):
            return self._unruled(function, args, kwargs)
        return _Linear.apply(self.direction, self.linear_rule, x, w.t(), bias)

    def _matmul(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        left, right = args if len(args) == 2 else (args[0], None)
        attention = marks.marked(left, marks.ATTENTION)
        if attention:
            left = self.record(left)
        if right is None or not (tracked(left) or tracked(right)):
            return function(left, *args[1:], **kwargs)
        if not attention and not tracked(right) and right.dim() == 2:
            return _Linear.apply(self.direction, self.linear_rule, left, right.t(), None)
        if left.dim() < 2 or right.dim() < 2:
            return self._unruled(function, args, kwargs)
        return _Matmul.apply(self.direction, left, right)

    def _fused(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        return spelled_out(
            FusedCall(*args, **kwargs),
            self.record,
            multiply=lambda left, right: _Matmul.apply(self.direction, left, right),
            scale=lambda x, by: passed(self.direction, x * by, x) if tracked(x) else x * by,
            add=lambda scores, mask: self._add(ledger, torch.add, (scores, mask), {}, sign=1),
            softmax=lambda x: (
                passed(self.direction, torch.softmax(x, -1), x)
                if tracked(x)
                else torch.softmax(x, -1)
            ),
        )

    def _einsum(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
        operands = [self.record(o) if marks.marked(o, marks.ATTENTION) else o for o in operands]
        output = function(args[0], *operands)
        if not tracked(output):
            return output

        def formula(relevance: Tensor, inputs: Any, out: Tensor) -> list[Tensor]:
            share = ratio(relevance, out, shares.EPSILON)
            with torch.enable_grad():
                leaves = [x.detach().requires_grad_() for x in inputs]
                back = torch.autograd.grad(function(args[0], *leaves), leaves, share)
            return [x * b / len(inputs) for x, b in zip(inputs, back, strict=True)]

        return switched(self.direction, formula, output, operands)

    def _add(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any, sign: int) -> Any:
        left, right = args[0], args[1] if len(args) > 1 else kwargs["other"]
        if not (tracked(left) or tracked(right)):
            return function(*args, **kwargs)
        weight = sign * kwargs.get("alpha", 1)
        if isinstance(right, Tensor) and not tracked(right) and right.is_floating_point():
            # A mask of minus infinity gets no relevance, but infinity times nothing is not 0.
            right = right.clamp(min=torch.finfo(right.dtype).min)
        output = (
            torch.add(left, right, alpha=weight)
            if isinstance(left, Tensor)
            else (torch.add(right * weight, left))
        )
        _retire(function, left)
        biases = [_is_bias(x, output) for x in (left, right)]
        if any(biases):
            source = right if biases[0] else left
            return marks.carry(source, passed(self.direction, output, source))
        split = shares.addends if self.normalise else shares.plain_addends
        extra = (partial(ledger.spread, batch_first=ledger.batch_first),) if self.normalise else ()

        def formula(relevance: Tensor, inputs: Any, out: Tensor) -> list[Tensor]:
            parts = split(relevance, inputs[0], inputs[1] * weight, *extra)
            return [p.sum_to_size(x.shape) for p, x in zip(parts, inputs, strict=True)]

        return switched(self.direction, formula, output, (left, right))

    def _reversed_subtract(
        self, ledger: Ledger, function: Function, args: tuple, kwargs: Any
    ) -> Any:
        if not any(map(tracked, args)):
            return function(*args, **kwargs)
        return passed(self.direction, function(*args, **kwargs), args[0])

    def _multiply(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Any:
        left, right = args[0], args[1] if len(args) > 1 else kwargs["other"]
        if not (tracked(left) or tracked(right)):
            return function(*args, **kwargs)
        output = torch.mul(left, right)
        _retire(function, left)
        takes = [tracked(x) and not _is_factor(x) for x in (left, right)]
        if takes == [True, True]:
            return switched(
                self.direction,
                lambda relevance, inputs, out: [relevance.sum_to_size(x.shape) / 2 for x in inputs],
                output,
                (left, right),
            )
        source = left if takes[0] or not tracked(right) else right
        return marks.carry(source, passed(self.direction, output, source))

    def _divide(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Any:
        if not tracked(args[0]):
            return (
                function(*args, **kwargs)
                if not tracked(args[1])
                else (self._unruled(function, args, kwargs))
            )
        output = torch.div(*args, **kwargs)
        _retire(function, args[0])
        return marks.carry(args[0], passed(self.direction, output, args[0]))

    def _average(
        self, ledger: Ledger, function: Function, args: tuple, kwargs: Any, mean: bool
    ) -> Any:
        output = function(*args, **kwargs)
        if not tracked(output):
            return output
        x = args[0]
        dims = args[1] if len(args) > 1 else kwargs.get("dim")
        dims = (
            tuple(range(x.dim()))
            if dims is None
            else dims
            if isinstance(dims, tuple)
            else (tuple(dims) if isinstance(dims, list) else (dims,))
        )
        flat = sorted(d % x.dim() for d in dims)
        kept = output.shape == x.shape[:0] + tuple(
            1 if d in flat else n for d, n in enumerate(x.shape)
        )
        count = x.numel() // max(output.numel(), 1) if mean else 1

        def formula(relevance: Tensor, inputs: Any, out: Tensor) -> list[Tensor]:
            for d in () if kept else flat:
                relevance, out = relevance.unsqueeze(d), out.unsqueeze(d)
            return [shares.mean(relevance, inputs[0], out, count)]

        return switched(self.direction, formula, output, (x,))

    def _convolution(
        self, ledger: Ledger, function: Function, args: tuple, kwargs: Any, back: Function
    ) -> Tensor:
        x, w, bias, *geometry = _named(("input", "weight", "bias", *_GEOMETRY), args, kwargs)
        if not tracked(x):
            return function(*args, **kwargs)
        places = {
            key: value for key, value in zip(_GEOMETRY, geometry, strict=True) if value is not None
        }

        def apply(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
            # In float64: what this rounds off, the blocks' denominators blow up.
            wide = [None if t is None else t.double() for t in (x, w, bias)]
            return function(*wide, **places).to(x.dtype)

        def undo(share: Tensor, w: Tensor) -> Tensor:
            return back(x.shape, w, share, **places)

        def formula(relevance: Tensor, inputs: Any, out: Tensor) -> list[Tensor]:
            if marks.marked(x, marks.PIXELS):
                return [shares.pixels(relevance, inputs[0], w, apply, undo)]
            above, below = inputs[0].clamp(min=0), inputs[0].clamp(max=0)
            parts = apply(above, w.clamp(min=0)), apply(below, w.clamp(max=0))
            joint = parts[0] + parts[1]
            whole = (joint, joint) if self.normalise else parts
            first, second = (ratio(relevance, z, shares.EPSILON) for z in whole)
            return [above * undo(first, w.clamp(min=0)) + below * undo(second, w.clamp(max=0))]

        return switched(self.direction, formula, apply(x, w, bias), (x,))

    def _unruled(self, function: Function, args: tuple, kwargs: Any) -> Any:
        return unruled(self.direction, function, args, kwargs)


def unruled(direction: Direction, function: Function, args: tuple, kwargs: Any) -> Any:
    """The operation as it is; an error that names it, should relevance ever arrive there."""
    output = function(*args, **kwargs)
    if not tracked(output):
        return output

    def formula(relevance: Tensor, inputs: Any, out: Tensor) -> list[Tensor]:
        raise ModelError(
            f"relevance reaches the operation '{function.__name__}', which has no relevance rule,"
            " so this method cannot explain this model. Methods that need no rule for it:"
            " 'gae', 'integrated_gradients', 'gradient_x_input'."
        )

    return switched(direction, formula, output, [x for x in args if tracked(x)])


_GEOMETRY = ("stride", "padding", "dilation", "groups")
_CONVOLUTIONS = {
    F.conv1d: grad.conv1d_input,
    F.conv2d: grad.conv2d_input,
    F.conv3d: grad.conv3d_input,
}


def _as_it_is(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Joining and choosing: their own backward already hands each part its relevance."""
    return function(*args, **kwargs)


def _named(names: tuple[str, ...], args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    given = dict(zip(names, args, strict=False)) | kwargs
    return [given.get(name) for name in names]


def _is_bias(value: Any, output: Tensor) -> bool:
    """Whether an addend is the same at every token: a number or a vector takes nothing."""
    if not isinstance(value, Tensor):
        return True
    return not tracked(value) and value.numel() <= output.shape[-1] < output.numel()


def _is_factor(value: Any) -> bool:
    """Whether a factor is a gate or a norm's divisor, which take nothing."""
    return marks.marked(value, marks.GATE) or marks.marked(value, marks.STATISTIC)


def _retire(function: Function, tensor: Any) -> None:
    """Notes that an in-place operation was run out of place: the old tensor must not be used."""
    name = function.__name__
    in_place = name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))
    if in_place and tracked(tensor):
        marks.mark(tensor, marks.STALE)
