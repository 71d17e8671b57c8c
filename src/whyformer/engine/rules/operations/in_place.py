"""Calls that overwrite a tensor, and their twins that return a new one.

A rule returns a new tensor, so it cannot run a call that overwrites one. The interception runs the
twin by its rule and then copies the result into the tensor: torch keeps track of that copy, also
for views of the tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import FunctionType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.operations.names import Function, torch_functions

# They change the shape or the history of a tensor and not its entries, or they draw new entries.
_NO_TWIN = torch_functions(
    "squeeze unsqueeze transpose t swapaxes swapdims as_strided detach requires_grad resize "
    "resize_as set share_memory rename normal uniform random bernoulli exponential"
)


class Twin(NamedTuple):
    """A call that returns what another call writes into its targets."""

    function: Function
    args: tuple
    kwargs: dict[str, Any]
    targets: Sequence[Tensor]


def is_in_place(function: Function, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the call overwrites its first argument, or the tensors passed as `out`."""
    if is_named_in_place(function):
        return True
    if kwargs and (kwargs.get("inplace") or kwargs.get("out") is not None):
        return True
    position = position_of_inplace(function)
    return position is not None and len(args) > position and bool(args[position])


def out_of_place(function: Function, args: tuple, kwargs: dict[str, Any]) -> Twin | None:
    """The twin of an in-place call; None if it has none."""
    if kwargs.get("out") is not None:
        others = {key: value for key, value in kwargs.items() if key != "out"}
        out = kwargs["out"]
        return Twin(function, args, others, (out,) if isinstance(out, Tensor) else tuple(out))
    twin = _twin_of(function)
    if twin is None:
        return None
    position = position_of_inplace(function)
    if position is not None:
        args = args[:position] + (False,) * (len(args) > position) + args[position + 1 :]
        kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
    return Twin(twin, args, kwargs, (args[0] if args else kwargs["input"],))


@functools.cache
def is_named_in_place(function: Function) -> bool:
    """Whether the name says so: `x.add_(y)`, `x += y`, `x[0] = y`."""
    name = function.__name__
    if name.startswith("__i"):
        return hasattr(Tensor, f"__{name[3:]}")
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


@functools.cache
def position_of_inplace(function: Function) -> int | None:
    """The place of the argument `inplace` of F.relu, F.dropout, ...; None without one."""
    if not isinstance(function, FunctionType):
        return None
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return names.index("inplace") if "inplace" in names else None


@functools.cache
def _twin_of(function: Function) -> Function | None:
    if not is_named_in_place(function):
        return function
    if function in _NO_TWIN:
        return None
    if function in _WRITTEN_OUT:
        return _WRITTEN_OUT[function]
    name = function.__name__
    plain = f"__{name[3:]}" if name.startswith("__i") else name[:-1]
    found: list[Function | None] = [getattr(owner, plain, None) for owner in (Tensor, torch, F)]
    return next(filter(callable, found), None)


def set_item(x: Tensor, index: Any, value: Any) -> Tensor:
    """A copy of x with x[index] = value."""
    output = x.clone()
    output[index] = value
    return output


def copy_entries(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """The source in the shape and precision of x."""
    return source.to(x.dtype).expand_as(x)


_WRITTEN_OUT: dict[Function, Function] = {
    Tensor.__setitem__: set_item,
    Tensor.copy_: copy_entries,
    Tensor.zero_: torch.zeros_like,
    torch.zero_: torch.zeros_like,
    Tensor.fill_: torch.fill,
    torch.fill_: torch.fill,
}
