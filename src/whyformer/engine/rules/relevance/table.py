"""The relevance tier: every operation under a switch (Chefer et al., CVPR 2021).

"ours" is the paper's method; "orig" are the rules of its LRP baselines, which differ in linear
layers and in skip connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import grad

from whyformer.engine.rules.detach.attention import Hold, Record, einsum_operands, unfused_attention
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.fused_attention import FusedCall, relevance_shares
from whyformer.engine.rules.operations.names import (
    ACTIVATION,
    ADD,
    ADD_UP,
    CHOOSE,
    DIVIDE,
    JOIN,
    MATMUL,
    MULTIPLY,
    NEGATE,
    NORM,
    POINTWISE_LINEAR,
    POOLING,
    REVERSED_SUBTRACT,
    SELECT_LARGEST,
    SOFTMAX,
    SQUASHING,
    STATISTIC,
    SUBTRACT,
    Function,
    is_in_place,
)
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.engine.rules.relevance import contractions, shares
from whyformer.engine.rules.relevance.contractions import LinearRule
from whyformer.engine.rules.relevance.switch import Direction, pass_unchanged, use_formula
from whyformer.errors import ModelError

LINEAR_RULES: dict[str, LinearRule] = {
    "ours": shares.positive_linear,
    "orig": lambda relevance, x, w, *_: shares.separate_linear(relevance, x, w),
}


class Relevance:
    """The rules of one forward pass, whose graph then serves gradient and relevance.

    A rule takes `(ledger, function, args, kwargs)`, as in every tier.
    """

    def __init__(self, direction: Direction, rules: str, record: Record, hold: Hold) -> None:
        self.direction = direction
        self.record = record
        self.hold = hold
        self.linear_rule = LINEAR_RULES[rules]
        self.normalise = rules == "ours"

    def table(self) -> Mapping[Function, Any]:
        """{operation: rule}; operations that only rearrange need none."""
        return {
            **dict.fromkeys(POINTWISE_LINEAR | NORM | NEGATE | ACTIVATION, self._through),
            **dict.fromkeys(SQUASHING, partial(self._through, mark=tags.SQUASHED)),
            **dict.fromkeys(SOFTMAX, partial(self._through, mark=tags.ATTENTION)),
            **dict.fromkeys(STATISTIC, self._statistic),
            **dict.fromkeys(ADD, partial(self._add, sign=1)),
            **dict.fromkeys(SUBTRACT, partial(self._add, sign=-1)),
            **dict.fromkeys(REVERSED_SUBTRACT, self._reversed_subtract),
            **dict.fromkeys(MULTIPLY, self._multiply),
            **dict.fromkeys(DIVIDE, self._divide),
            **dict.fromkeys(MATMUL, self._matmul),
            **dict.fromkeys(ADD_UP | POOLING, self._by_contribution),
            **dict.fromkeys(JOIN | CHOOSE | SELECT_LARGEST, _as_it_is),
            **{op: partial(self._convolution, back=back) for op, back in _CONVOLUTIONS.items()},
            **dict.fromkeys((torch.addmm, Tensor.addmm), self._addmm),
            F.linear: self._linear,
            F.scaled_dot_product_attention: self._fused,
            torch.einsum: self._einsum,
        }

    # -- one input ---------------------------------------------------------------------------------

    def _through(
        self, ledger: Ledger, function: Function, args: tuple, kwargs: Any, mark: str | None = None
    ) -> Any:
        """f(x): relevance passes unchanged."""
        x = args[0] if args else kwargs["input"]
        if is_tracked(x) and args and is_in_place(function, kwargs):
            output = function(x.clone(), *args[1:], **kwargs)
            _retire(x)
        else:
            output = function(*args, **kwargs)
        if is_tracked(x):
            output = pass_unchanged(self.direction, output, x)
        return tags.add_tag(output, mark) if mark else output

    def _statistic(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Any:
        """What a norm divides by takes no relevance."""
        output = function(*args, **kwargs)
        if not isinstance(output, Tensor):
            return output
        if is_tracked(output):
            output = use_formula(self.direction, lambda relevance, inputs, out: (), output, ())
        return tags.add_tag(output, tags.STATISTIC)

    def _by_contribution(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Any:
        """A sum or an average: each entry gets what it contributed."""
        output = function(*args, **kwargs)
        if not is_tracked(output):
            return output
        if self._is_mean_of_features(function, args, kwargs):
            return self._statistic(ledger, function, args, kwargs)

        def formula(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
            return shares.contributions(relevance, inputs, out, partial(_backward, again, inputs))

        def again(x: Tensor) -> Tensor:
            return function(x, *args[1:], **kwargs)

        return use_formula(self.direction, formula, output, args[:1])

    @staticmethod
    def _is_mean_of_features(function: Function, args: tuple, kwargs: Any) -> bool:
        """Whether this is the mean that a norm written by hand subtracts."""
        dims = args[1] if len(args) > 1 else kwargs.get("dim")
        kept = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        last = dims in (-1, [-1], (-1,), args[0].dim() - 1)
        return function.__name__ == "mean" and last and bool(kept)

    # -- two inputs --------------------------------------------------------------------------------

    def _add(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any, sign: int) -> Any:
        left, right = args[0], args[1] if len(args) > 1 else kwargs["other"]
        if not (is_tracked(left) or is_tracked(right)):
            return function(*args, **kwargs)
        weight = sign * kwargs.get("alpha", 1)
        left, right = _finite(left), _finite(right)
        output = left + (right if weight == 1 else right * weight)
        if is_in_place(function, kwargs):
            _retire(args[0])
        for source, other in ((left, right), (right, left)):
            # Inside the blocks, what is not tracked is a position or a mask, added anew to states
            # that already have their say; at the embeddings it is a part of them.
            constant = ledger.inside and not is_tracked(other)
            if is_tracked(source) and (constant or _takes_nothing(other, output)):
                return tags.copy_tag(source, pass_unchanged(self.direction, output, source))
        split = shares.addends if self.normalise else shares.plain_addends
        extra = (partial(ledger.spread, batch_first=ledger.batch_first),) if self.normalise else ()

        def formula(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
            other = inputs[1] if weight == 1 else inputs[1] * weight
            parts = split(relevance, inputs[0], other, out, *extra)
            return [part.sum_to_size(x.shape) for part, x in zip(parts, inputs, strict=True)]

        return use_formula(self.direction, formula, output, (left, right))

    def _reversed_subtract(
        self, ledger: Ledger, function: Function, args: tuple, kwargs: Any
    ) -> Any:
        """right - left."""
        other = torch.as_tensor(args[1], dtype=args[0].dtype, device=args[0].device)
        return self._add(ledger, torch.sub, (other, args[0]), kwargs, sign=-1)

    def _multiply(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Any:
        left, right = args[0], args[1] if len(args) > 1 else kwargs["other"]
        if not (is_tracked(left) or is_tracked(right)):
            return function(*args, **kwargs)
        output = left * right
        if is_in_place(function, kwargs):
            _retire(left)
        takes = [is_tracked(x) and not _is_factor(x) for x in (left, right)]
        if takes == [True, True]:
            return use_formula(
                self.direction,
                lambda relevance, inputs, out: [relevance.sum_to_size(x.shape) / 2 for x in inputs],
                output,
                (left, right),
            )
        source = left if takes[0] or not is_tracked(right) else right
        return tags.copy_tag(source, pass_unchanged(self.direction, output, source))

    def _divide(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Any:
        left = args[0]
        if not is_tracked(left):
            return run_without_rule(self.direction, function, args, kwargs)
        output = torch.div(*args, **kwargs)
        if is_in_place(function, kwargs):
            _retire(left)
        return tags.copy_tag(left, pass_unchanged(self.direction, output, left))

    # -- contractions ------------------------------------------------------------------------------

    def _linear(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        x, w, bias = _named(("input", "weight", "bias"), args, kwargs)
        if is_tracked(w):
            product = contractions.matmul(self.direction, x, w.transpose(-2, -1))
            return (
                product if bias is None else pass_unchanged(self.direction, product + bias, product)
            )
        if not is_tracked(x):
            return function(x, w, bias)
        return contractions.linear(self.direction, self.linear_rule, x, w, bias)

    def _addmm(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        bias, x, w = args[:3]
        if kwargs or not is_tracked(x) or is_tracked(w) or is_tracked(bias):
            return run_without_rule(self.direction, function, args, kwargs)
        return contractions.linear(self.direction, self.linear_rule, x, w.t(), bias)

    def _matmul(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        left, right = _named(("input", "other"), args, kwargs)
        attention = tags.has_tag(left, tags.ATTENTION)
        if attention:
            left = self.record(left)
        if right is None or not (is_tracked(left) or is_tracked(right)):
            return function(left, *args[1:], **kwargs)
        if not attention and not is_tracked(right) and right.dim() == 2:
            return contractions.linear(self.direction, self.linear_rule, left, right.t(), None)
        if not is_tracked(left) and left.dim() == 2 and right.dim() >= 2:
            turned = right.transpose(-2, -1)
            mixed = contractions.linear(self.direction, self.linear_rule, turned, left, None)
            return mixed.transpose(-2, -1)
        if left.dim() < 2 or right.dim() < 2:
            return run_without_rule(self.direction, function, args, kwargs)
        return contractions.matmul(self.direction, left, right)

    def _fused(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        def through(output: Tensor, x: Tensor) -> Tensor:
            return pass_unchanged(self.direction, output, x) if is_tracked(x) else output

        def kept_fused(call: FusedCall) -> Tensor:
            inputs = (call.query, call.key, call.value)
            formula = partial(relevance_shares, call)
            return use_formula(self.direction, formula, function(**call._asdict()), inputs)

        call = FusedCall(*args, **kwargs)
        held = self.hold(call, kept_fused)
        if held is not None:
            return held
        return unfused_attention(
            call,
            self.record,
            multiply=partial(contractions.matmul, self.direction),
            scale=lambda x, by: through(x * by, x),
            add=lambda scores, mask: self._add(ledger, torch.add, (scores, mask), {}, sign=1),
            softmax=lambda x: through(torch.softmax(x, -1), x),
        )

    def _einsum(self, ledger: Ledger, function: Function, args: tuple, kwargs: Any) -> Tensor:
        equation, given = einsum_operands(args)
        operands = [self.record(o) if tags.has_tag(o, tags.ATTENTION) else o for o in given]
        output = function(equation, *operands)
        if not is_tracked(output):
            return output
        takes = [is_tracked(o) for o in operands]
        mixes = any(tags.has_tag(o, tags.ATTENTION) for o in given)
        # Attention and values share even where the values depend on nothing that is tracked.
        sharing = len(operands) if mixes else sum(takes)

        normalise = self.normalise  # a formula that held these rules would hold their own graph

        def contract(*tensors: Tensor) -> Tensor:
            return function(equation, *tensors)

        def signed(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
            back = partial(_backward, contract, inputs)
            return shares.contributions(relevance, inputs, out, back, sharing)

        def positive(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
            halves = [[x.clamp(min=0) for x in inputs], [x.clamp(max=0) for x in inputs]]
            sums = [contract(*half) for half in halves]
            sums = [sums[0] + sums[1]] * 2 if normalise else sums
            totals = [torch.zeros_like(x) for x in inputs]
            for half, whole in zip(halves, sums, strict=True):
                back = _backward(contract, half, ratio(relevance, whole, shares.EPSILON))
                totals = [t + x * b for t, x, b in zip(totals, half, back, strict=True)]
            return totals

        weighted = len(operands) == 2 and sharing == 1
        return use_formula(self.direction, positive if weighted else signed, output, operands)

    def _convolution(
        self, ledger: Ledger, function: Function, args: tuple, kwargs: Any, back: Function
    ) -> Tensor:
        x, w, bias, *geometry = _named(("input", "weight", "bias", *_GEOMETRY), args, kwargs)
        if not is_tracked(x) or is_tracked(w):
            return run_without_rule(self.direction, function, args, kwargs)
        places = {
            key: value for key, value in zip(_GEOMETRY, geometry, strict=True) if value is not None
        }

        normalise = self.normalise  # see _einsum

        def apply(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
            # In float64: what this rounds off, the blocks' denominators blow up.
            wide = [None if t is None else t.double() for t in (x, w, bias)]
            return function(*wide, **places).to(x.dtype)

        def undo(share: Tensor, w: Tensor) -> Tensor:
            return back(x.shape, w, share, **places)

        def formula(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
            if tags.has_tag(x, tags.PIXELS):
                return [shares.pixels(relevance, inputs[0], w, apply, undo)]
            above, below = inputs[0].clamp(min=0), inputs[0].clamp(max=0)
            parts = apply(above, w.clamp(min=0)), apply(below, w.clamp(max=0))
            joint = parts[0] + parts[1]
            whole = (joint, joint) if normalise else parts
            first, second = (ratio(relevance, z, shares.EPSILON) for z in whole)
            return [above * undo(first, w.clamp(min=0)) + below * undo(second, w.clamp(max=0))]

        return use_formula(self.direction, formula, apply(x, w, bias), (x,))


def run_without_rule(direction: Direction, function: Function, args: tuple, kwargs: Any) -> Any:
    """The operation as it is; an error that names it, should relevance ever arrive there."""
    output = function(*args, **kwargs)
    sources = [x for x in args if is_tracked(x)]

    def formula(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
        if not relevance.any():
            return [torch.zeros_like(x) for x in inputs]
        raise ModelError(
            f"relevance reaches the operation '{function.__name__}', which has no relevance rule,"
            " so this method cannot explain this model. Methods that need no rule for it:"
            " 'gae', 'integrated_gradients', 'gradient_x_input'."
        )

    def guarded(value: Any) -> Any:
        return use_formula(direction, formula, value, sources) if is_tracked(value) else value

    if type(output) in (tuple, list):
        return type(output)(guarded(value) for value in output)
    return guarded(output)


_GEOMETRY = ("stride", "padding", "dilation", "groups")
_CONVOLUTIONS = {
    F.conv1d: grad.conv1d_input,
    F.conv2d: grad.conv2d_input,
    F.conv3d: grad.conv3d_input,
}


def _as_it_is(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Joining and choosing: their own backward already hands each part its relevance."""
    output = function(*args, **kwargs)
    return tags.copy_tag(args[1], output) if function in CHOOSE and len(args) > 1 else output


def _backward(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], share: Tensor
) -> tuple[Tensor, ...]:
    """What the function's backward makes of the share, for each input."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(function(*leaves), leaves, share)


def _named(names: tuple[str, ...], args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    given = dict(zip(names, args, strict=False)) | kwargs
    return [given.get(name) for name in names]


def _finite(value: Any) -> Any:
    """The value, a mask's minus infinity made finite: it gets no relevance, but -inf * 0 is NaN."""
    if not isinstance(value, Tensor) or is_tracked(value) or not value.is_floating_point():
        return value
    return value.clamp(min=torch.finfo(value.dtype).min)


def _takes_nothing(value: Any, output: Tensor) -> bool:
    """Whether an addend is a bias, the same at every token, or the mean that a norm subtracts."""
    if not isinstance(value, Tensor) or tags.has_tag(value, tags.STATISTIC):
        return True
    alike = value.dim() <= 1 or value.numel() <= output.shape[-1] < output.numel()
    return alike and not is_tracked(value)


def _is_factor(value: Any) -> bool:
    """Whether a factor is a gate or a norm's divisor, which take nothing."""
    return tags.has_tag(value, tags.SQUASHED) or tags.has_tag(value, tags.STATISTIC)


def _retire(tensor: Tensor) -> None:
    """Notes that an in-place operation was run out of place: the old tensor must not be used."""
    for old in (tensor, tensor._base):
        if old is not None:
            tags.add_tag(old, tags.STALE)
