"""Relevance rules of activations, norms, sums, averages, products and quotients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.arguments import bind, two_operands
from whyformer.engine.rules.operations.names import CHOOSE, SELECT_LARGEST, Function
from whyformer.engine.rules.relevance import shares
from whyformer.engine.rules.relevance.context import RuleContext
from whyformer.engine.rules.relevance.switch import pass_unchanged, run_without_rule, use_formula

# -- one input -----------------------------------------------------------------------------------


def pass_through(
    context: RuleContext,
    ledger: Ledger,
    function: Function,
    args: tuple,
    kwargs: Any,
    tag: str | None = None,
) -> Any:
    """f(x), with `tag`; relevance passes unchanged."""
    x = args[0] if args else kwargs["input"]
    output = function(*args, **kwargs)
    if is_tracked(x):
        output = pass_unchanged(context.direction, output, x)
    return tags.add_tag(output, tag) if tag else output


def statistic(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Any:
    """The mean or the divisor of a norm, which takes no relevance."""

    def take_nothing(value: Tensor) -> Tensor:
        if is_tracked(value):
            value = use_formula(context.direction, lambda relevance, inputs, out: (), value, ())
        return tags.add_tag(value, tags.STATISTIC)

    output = function(*args, **kwargs)
    return take_nothing(output) if isinstance(output, Tensor) else tuple(map(take_nothing, output))


def power(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Any:
    """x ** exponent: a root is the divisor of a norm, other powers pass relevance unchanged."""
    _, exponent = bind("input exponent", args, kwargs)
    is_root = isinstance(exponent, (int, float)) and (exponent < 0 or exponent == 0.5)
    return (statistic if is_root else pass_through)(context, ledger, function, args, kwargs)


def add_up(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Any:
    """A sum or an average over axes: each entry gets relevance by its contribution."""
    output = function(*args, **kwargs)
    if not is_tracked(output):
        return output
    if _is_mean_of_features(function, args, kwargs):
        return statistic(context, ledger, function, args, kwargs)
    direction = context.direction

    def formula(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
        direction.rounding.note(relevance, out, run_again(inputs[0].abs()))
        back = partial(shares.vector_jacobian, run_again, inputs)
        return shares.contributions(relevance, inputs, out, back)

    def run_again(x: Tensor) -> Tensor:
        return function(x, *args[1:], **kwargs)

    return use_formula(direction, formula, output, args[:1])


def add_into(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Any:
    """index_add or scatter_add: each tensor gets relevance by its contribution."""
    names = ("input", "dim", "index", "source" if "index_add" in function.__name__ else "src")
    whole, dim, index, added = (
        args[i] if i < len(args) else kwargs[name] for i, name in enumerate(names)
    )
    others = {key: value for key, value in kwargs.items() if key not in names}
    output = function(whole, dim, index, added, **others)
    if not is_tracked(output):
        return output
    direction = context.direction

    def formula(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
        direction.rounding.note(relevance, out, run_again(*(x.abs() for x in inputs)))
        back = partial(shares.vector_jacobian, run_again, inputs)
        return shares.contributions(relevance, inputs, out, back)

    def run_again(whole: Tensor, added: Tensor) -> Tensor:
        return function(whole, dim, index, added, **others)

    return use_formula(direction, formula, output, (whole, added))


def _is_mean_of_features(function: Function, args: tuple, kwargs: Any) -> bool:
    """Whether this is the mean that a norm written out by hand subtracts."""
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    kept = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    last = dims in (-1, [-1], (-1,), args[0].dim() - 1)
    return function.__name__ == "mean" and last and bool(kept)


def keep_backward(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """cat, where, max, ...: their own backward gives each part its relevance."""
    output = function(*args, **kwargs)
    if function in SELECT_LARGEST:
        return tags.copy_tag_to_values(args[0], output)
    return tags.copy_tag(args[1], output) if function in CHOOSE and len(args) > 1 else output


# -- two inputs ----------------------------------------------------------------------------------


def add(
    context: RuleContext,
    ledger: Ledger,
    function: Function,
    args: tuple,
    kwargs: Any,
    sign: int = 1,
) -> Any:
    """left + sign * alpha * right; each side gets relevance by its contribution."""
    left, right = two_operands(args, kwargs)
    if not (is_tracked(left) or is_tracked(right)):
        return function(*args, **kwargs)
    weight = sign * kwargs.get("alpha", 1)
    left, right = _finite(left), _finite(right)
    output = left + (right if weight == 1 else right * weight)
    for source, other in ((left, right), (right, left)):
        # Inside the blocks an untracked addend is a position or a mask, and takes nothing; at the
        # embeddings it is a part of the token states.
        constant = ledger.inside and not is_tracked(other)
        if is_tracked(source) and (constant or _takes_nothing(other, output)):
            return tags.copy_tag(source, pass_unchanged(context.direction, output, source))
    split: Any = shares.plain_addends
    if context.normalise:
        spread = partial(ledger.spread, batch_first=ledger.batch_first)
        split = partial(shares.addends, per_sample=spread)
    direction, batch_first = context.direction, ledger.batch_first

    def formula(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
        other = inputs[1] if weight == 1 else inputs[1] * weight
        terms = inputs[0].abs() + other.abs()
        direction.rounding.note(relevance, out, terms, batch_first)
        parts = split(relevance, inputs[0], other, out)
        return [part.sum_to_size(x.shape) for part, x in zip(parts, inputs, strict=True)]

    return use_formula(direction, formula, output, (left, right))


def reversed_subtract(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Any:
    """right - left."""
    other = torch.as_tensor(args[1], dtype=args[0].dtype, device=args[0].device)
    return add(context, ledger, torch.sub, (other, args[0]), kwargs, sign=-1)


def multiply(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Any:
    """left * right; relevance goes to the factor that is not a gate or divisor, or half to each.

    Softmax weights are gates too: those of experts, or of tokens that are added up later.
    """
    left, right = two_operands(args, kwargs)
    if not (is_tracked(left) or is_tracked(right)):
        return function(*args, **kwargs)
    output = left * right
    takes = [is_tracked(x) and not _is_factor(x) for x in (left, right)]
    if takes == [True, True] and tags.is_weight(left) != tags.is_weight(right):
        takes = [not tags.is_weight(x) for x in (left, right)]
    if takes == [True, True]:
        return use_formula(
            context.direction,
            lambda relevance, inputs, out: [relevance.sum_to_size(x.shape) / 2 for x in inputs],
            output,
            (left, right),
        )
    source = left if takes[0] or not is_tracked(right) else right
    return tags.copy_tag(source, pass_unchanged(context.direction, output, source))


def divide(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Any:
    """left / right; the divisor takes no relevance."""
    left = args[0]
    if not is_tracked(left):
        return run_without_rule(context.direction, function, args, kwargs)
    output = torch.div(*args, **kwargs)
    return tags.copy_tag(left, pass_unchanged(context.direction, output, left))


def _finite(value: Any) -> Any:
    """The value; -inf of a mask becomes the lowest finite number, because -inf * 0 is NaN."""
    if not isinstance(value, Tensor) or is_tracked(value) or not value.is_floating_point():
        return value
    return value.clamp(min=torch.finfo(value.dtype).min)


def _takes_nothing(value: Any, output: Tensor) -> bool:
    """Whether an addend is a bias, equal for all tokens, or the mean that a norm subtracts."""
    if not isinstance(value, Tensor) or tags.has_tag(value, tags.STATISTIC):
        return True
    alike = value.dim() <= 1 or value.numel() <= output.shape[-1] < output.numel()
    return alike and not is_tracked(value)


def _is_factor(value: Any) -> bool:
    """Whether a factor is a gate or the divisor of a norm, which take nothing."""
    return tags.has_tag(value, tags.SQUASHED) or tags.has_tag(value, tags.STATISTIC)
