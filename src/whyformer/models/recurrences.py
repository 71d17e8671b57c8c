"""Recurrences that a model calls as one function: selective state spaces, delta rules, mLSTM.

Inside such a function many small operations mix tokens, and nothing tells the values that are
mixed from the parameters of the mixing. Its own parameter names do: they are the names of the
papers and of the kernel libraries (mamba-ssm, flash-linear-attention), whatever the model.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType
from typing import Any

from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

from whyformer.models.shared_scope import SharedScope

# The attribute of a replaced function that holds the function itself.
_ORIGINAL = "_whyformer_original"
Names = tuple[str, ...]  # of a function's parameters, in order
# What decides the mixing, by kind. A function that takes all names of a kind is a recurrence.
_KINDS = tuple(
    frozenset(names.split())
    for names in (
        "dt A B C",  # selective state space (Mamba)
        "delta A B C",
        "query key g beta",  # gated delta rule: decay and step
        "q k g beta",
        "query key igate fgate",  # mLSTM: input and forget gate
        "q k i f",
    )
)


def mixing_parameter(value: Any) -> Any:
    """Return the value itself; torch function modes see it as an operation, which can have a rule.

    Recurrences call it on what decides their mixing, while they are marked.
    """
    if isinstance(value, Tensor) and has_torch_function_unary(value):
        return handle_torch_function(mixing_parameter, (value,), value)
    return value


@contextmanager
def mark_mixing_parameters(parts: Iterable[nn.Module]) -> Iterator[None]:
    """A scope in which the recurrences of these parts mark what decides their mixing.

    They call `mixing_parameter` on it. A model finds such functions in the Python module of its
    class, where they are replaced for the time of the scope. That changes nothing for other
    threads: without a torch function mode `mixing_parameter` does nothing.
    """
    with ExitStack() as scopes:
        for name in sorted({type(part).__module__ for part in parts}):
            if name.startswith("torch."):
                continue  # its own modules call no such functions
            if name in sys.modules and _recurrences_in(vars(sys.modules[name])):
                scopes.enter_context(_scope_of(name)())
        yield


def recurrence_hooks(parts: Iterable[nn.Module]) -> list[tuple[nn.Module, str, Any]]:
    """Return hooks before those parts that are recurrences themselves, with the same effect."""
    parts = tuple(parts)
    hooks = {}
    for kind, part in {type(part): part for part in parts}.items():
        if kind.__module__.startswith("torch."):
            continue  # no module of torch is one, and code that it compiled cannot have hooks
        replaced = "forward" in vars(part)
        names = _parameter_names(part.forward) if replaced else _names_in_class(kind.forward)
        if parameters := _mixing_names(names):
            hooks[kind] = _hook(names, parameters)
    return [(part, "before", hooks[type(part)]) for part in parts if type(part) in hooks]


def _hook(names: Names, parameters: frozenset[str]) -> Callable[..., Any]:
    return lambda part, args, kwargs: _mark(names, parameters, args, kwargs)


@functools.cache
def _scope_of(name: str) -> SharedScope:
    """The scope in which the recurrences of a Python module are replaced."""
    namespace = vars(sys.modules[name])
    return SharedScope(
        lambda: partial(namespace.update, _recurrences_in(namespace)),
        lambda: _replace_recurrences(namespace),
    )


def _replace_recurrences(namespace: dict[str, Any]) -> None:
    for name, function in _recurrences_in(namespace).items():
        if not hasattr(function, _ORIGINAL):
            namespace[name] = _marking(function)


def _recurrences_in(namespace: dict[str, Any]) -> dict[str, FunctionType]:
    """The recurrences among the functions of a Python module, by name."""
    return {
        name: value
        for name, value in [*namespace.items()]
        if isinstance(value, FunctionType) and _is_recurrence(value)
    }


@functools.cache  # every forward asks for every function of a Python module
def _is_recurrence(function: FunctionType) -> bool:
    return bool(_mixing_names(_parameter_names(function)))


def _marking(function: FunctionType) -> Callable[..., Any]:
    """The function, which marks its mixing parameters before it runs."""
    names = _parameter_names(function)
    parameters = _mixing_names(names)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _mark(names, parameters, args, kwargs)
        return function(*args, **kwargs)

    setattr(run, _ORIGINAL, function)
    return run


def _mark(
    names: Names, parameters: frozenset[str], args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call, with those of `parameters` marked."""
    named = zip(names, args, strict=False)  # a call may leave out the last ones
    marked = [mixing_parameter(value) if name in parameters else value for name, value in named]
    return (*marked, *args[len(names) :]), {
        name: mixing_parameter(value) if name in parameters else value
        for name, value in kwargs.items()
    }


@functools.cache
def _mixing_names(names: Names) -> frozenset[str]:
    """The names of what decides the mixing; empty if a function with these names is none."""
    return next((kind for kind in _KINDS if kind.issubset(names)), frozenset())


def _parameter_names(function: Any) -> Names:
    """The names of a function's parameters, without `self`; none if it is not written in Python.

    The function below its decorators counts: they often take any arguments.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names[1:] if names[:1] == ("self",) else names


@functools.cache  # every forward pass asks for every class of module
def _names_in_class(forward: Callable[..., Any]) -> Names:
    return _parameter_names(forward)
