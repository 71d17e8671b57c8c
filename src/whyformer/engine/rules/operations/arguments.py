"""The arguments of a torch call, passed by position or by name."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def bind(names: str, args: tuple, kwargs: dict[str, Any], **defaults: Any) -> list[Any]:
    """The arguments in the order of `names`; a missing one is its default, or None."""
    order = names.split()
    values = defaults | dict(zip(order, args, strict=False)) | kwargs
    return [values.get(name) for name in order]


def two_operands(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Both operands of a sum or product; torch has four names for the second."""
    if len(args) > 1:
        return args[0], args[1]
    second = next(kwargs[name] for name in ("other", "mat2", "vec", "tensor") if name in kwargs)
    return args[0] if args else kwargs["input"], second


def einsum_operands(args: tuple) -> tuple[str, tuple[Tensor, ...]]:
    """The equation and the operands, which einsum also accepts as one list."""
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    return args[0], tuple(operands)
