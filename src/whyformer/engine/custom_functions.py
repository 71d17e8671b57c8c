"""Custom autograd functions, run by the operations of their forward.

`torch.autograd.Function.apply` runs the forward with gradients off, so the rules cannot follow it.
Where autograd through the operations of the forward gives the function's own gradient, the forward
runs in the open instead: its operations reach the interception as those of the model's own code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, _is_setup_context_defined, _SingleLevelFunction
from torch.overrides import TorchFunctionMode

from whyformer.models.shared_scope import SharedScope
from whyformer.models.undo import Change, keep_random_state

_OWN = "whyformer."
_this_thread = threading.local()


@contextmanager
def open_functions() -> Iterator[None]:
    """Run custom autograd functions of this thread in the open, where their gradient allows it."""
    before = {"opens": False, "closed": 0, **vars(_this_thread)}
    with _replaced_apply(), Change(partial(vars(_this_thread).update, before)):
        _this_thread.opens = True
        yield


def runs_closed_function() -> bool:
    """Return whether a custom function runs now that could not be run in the open."""
    return getattr(_this_thread, "closed", 0) > 0


def _save_apply() -> Callable[[], None]:
    return _remove_apply


def _remove_apply() -> None:
    if "apply" in vars(_SingleLevelFunction):
        delattr(_SingleLevelFunction, "apply")


def _replace_apply() -> None:
    """Let functions of an explaining thread run in the open.

    `Function.apply` looks its implementation up in this class, also if a model holds on to `apply`.
    """
    scope: Any = _SingleLevelFunction
    scope.apply = classmethod(_apply)


_replaced_apply = SharedScope(_save_apply, _replace_apply)


def _apply(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The function's output: in the open, or as torch computes it."""
    as_torch: Callable[..., Any] = super(_SingleLevelFunction, function).apply
    if not getattr(_this_thread, "opens", False) or function.__module__.startswith(_OWN):
        return as_torch(*args, **kwargs)
    if kwargs or not torch.is_grad_enabled() or not any(map(_is_floating, args)):
        return as_torch(*args, **kwargs)
    if _has_own_gradient(function, as_torch, args):
        return _forward(function, args, alone=False)
    _this_thread.closed = getattr(_this_thread, "closed", 0) + 1
    try:
        return as_torch(*args)
    finally:
        _this_thread.closed -= 1


def _is_tracked(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


class _Context(FunctionCtx):
    """Stands in for the context that a forward saves tensors in."""

    def mark_dirty(self, *args: Tensor) -> None:
        raise ValueError("the function overwrites its input")


class _CopiedOutputs(TorchFunctionMode):
    """Gives a forward copies of what operations return.

    A forward may overwrite them, also where the gradient of the operation needs its output. With
    `alone` the operations do not reach the modes around this one.
    """

    def __init__(self, alone: bool) -> None:
        super().__init__()
        self.around = torch._C.DisableTorchFunction if alone else nullcontext

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with self.around():
            output = func(*args, **(kwargs or {}))
            is_new = _is_tracked(output) and output._base is None
            return output.clone() if is_new and not any(output is a for a in args) else output


def _forward(function: Any, args: Sequence[Any], alone: bool) -> Any:
    """The operations of the function's forward; `alone` keeps the rules out."""
    with _CopiedOutputs(alone):
        if _is_setup_context_defined(function.setup_context):
            return function.forward(*args)
        context: Any = _Context()
        context.needs_input_grad = tuple(map(_is_tracked, args))
        return function.forward(context, *args)


def _has_own_gradient(function: Any, as_torch: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether the operations of the forward have the values and the gradient of the function."""
    plain = torch._C.DisableTorchFunction
    try:
        with keep_random_state():
            with plain():
                closed, opened = _copies(args), _copies(args)
                expected = _values_and_gradients(as_torch(*closed), closed)
            output = _forward(function, opened, alone=True)
            with plain():
                found = _values_and_gradients(output, opened)
                return len(found) == len(expected) and all(map(_is_close, found, expected))
    except Exception:
        return False  # its forward leaves torch, or its backward fails


def _copies(args: Sequence[Any]) -> list[Any]:
    """The arguments, with a leaf for each tracked tensor; for all floating ones if none is."""
    leads = _is_tracked if any(map(_is_tracked, args)) else _is_floating
    return [
        a.detach().clone().requires_grad_(leads(a)) if isinstance(a, Tensor) else a for a in args
    ]


def _values_and_gradients(output: Any, inputs: Sequence[Any]) -> list[Tensor | None]:
    """The function's outputs, and the gradient of a fixed weighted sum of them at its inputs."""
    outputs = [o for o in (output if isinstance(output, tuple) else (output,)) if _is_floating(o)]
    tracked = [o for o in outputs if o.requires_grad]
    weights = [torch.arange(o.numel(), device=o.device).cos().view_as(o).to(o) for o in tracked]
    leaves = [i for i in inputs if _is_tracked(i)]
    gradients = torch.autograd.grad(tracked, leaves, weights, allow_unused=True)
    return [*(o.detach() for o in outputs), *gradients]


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _is_close(found: Tensor | None, expected: Tensor | None) -> bool:
    """Whether two tensors agree up to the rounding of constants; None is all zeros."""
    if found is None or expected is None:
        return all(one is None or not one.any() for one in (found, expected))
    tolerance = torch.finfo(expected.dtype).eps ** 0.5
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return found.shape == expected.shape and torch.allclose(
        found, expected, rtol=tolerance, atol=tolerance * scale
    )
