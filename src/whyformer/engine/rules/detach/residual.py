"""Sums and concatenations: relevance goes to each part, constants are sinks."""

from __future__ import annotations

from typing import Any

import torch

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.arguments import two_operands
from whyformer.engine.rules.operations.names import (
    ADD,
    CHOOSE,
    JOIN,
    REVERSED_SUBTRACT,
    SUBTRACT,
    Function,
    RuleTable,
)


def add(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """left + alpha * right; an operand that does not depend on the tokens is a sink."""
    return _add(ledger, function, args, kwargs, signs=(1, 1))


def subtract(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """left - alpha * right; an operand that does not depend on the tokens is a sink."""
    return _add(ledger, function, args, kwargs, signs=(1, -1))


def reversed_subtract(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """right - left; an operand that does not depend on the tokens is a sink."""
    return _add(ledger, function, args, kwargs, signs=(-1, 1))


def _add(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any], signs: tuple[int, int]
) -> Any:
    left, right = two_operands(args, kwargs)
    depends = is_tracked(left), is_tracked(right)
    output = function(*args, **kwargs)
    if depends == (True, False):
        ledger.book_constant("constant", output, right * (signs[1] * kwargs.get("alpha", 1)))
        # In a composite GELU, 1 + tanh(...) is still the gate.
        tags.copy_tag(left, output)
    elif depends == (False, True):
        ledger.book_constant("constant", output, left * signs[0])
        tags.copy_tag(right, output)
    elif depends == (True, True):
        tags.tag_sum((left, right), output)
    return output


def join(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """cat or stack; parts that do not depend on the tokens (class token, prompt) are sinks."""
    output = function(*args, **kwargs)
    parts = args[0] if args else kwargs["tensors"]
    depends = [is_tracked(part) for part in parts]
    if ledger.active and any(depends) and not all(depends):
        constants = [
            torch.zeros_like(part) if part_depends else part
            for part, part_depends in zip(parts, depends, strict=True)
        ]
        ledger.book_constant(
            "constant",
            output,
            function(
                constants,
                *args[1:],
                **{key: value for key, value in kwargs.items() if key != "tensors"},
            ),
        )
    return tags.copy_shared_tag(parts, output)


def where(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """where(condition, a, b); a side that does not depend on the tokens is a sink."""
    output = function(*args, **kwargs)
    if len(args) == 3 and is_tracked(output) and is_tracked(args[1]) != is_tracked(args[2]):
        condition, left, right = args
        zero = output.new_zeros(())  # of the output's dtype: the other side may be a number
        constant = (
            torch.where(condition, zero, right)
            if is_tracked(left)
            else torch.where(condition, left, zero)
        )
        ledger.book_constant("constant", output, constant)
        tags.copy_tag(left if is_tracked(left) else right, output)
    return output


TABLE: RuleTable = {
    **dict.fromkeys(ADD, add),
    **dict.fromkeys(SUBTRACT, subtract),
    **dict.fromkeys(REVERSED_SUBTRACT, reversed_subtract),
    **dict.fromkeys(JOIN, join),
    **dict.fromkeys(CHOOSE, where),
}
