"""Recurrences that a model calls as one function: selective state spaces, delta rules, mLSTM.

Inside such a function many small operations mix tokens, and nothing tells the values that are
mixed from the parameters of the mixing. Its own parameter names do: they are the names of the
papers and of the kernel libraries (mamba-ssm, flash-linear-attention), whatever the model.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

from torch import nn

from whyformer.engine.rules.operations.mixing_parameter import mixing_parameter
from whyformer.engine.scope import parts_with_hooks
from whyformer.models.shared_scope import SharedScope
from whyformer.models.weights import modules_of

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


@contextmanager
def mark_mixing_parameters(module: nn.Module) -> Iterator[None]:
    """A scope in which recurrences call `mixing_parameter` on what decides their mixing.

    A model finds such functions in the Python module of its class, where they are replaced for the
    time of the scope. That changes nothing for other threads: without a torch function mode
    `mixing_parameter` does nothing.
    """
    with ExitStack() as scopes:
        for name in sorted({type(part).__module__ for part in modules_of(module)}):
            if name in sys.modules and _recurrences_in(name):
                scopes.enter_context(_scope_of(name)())
        yield


def recurrence_hooks(module: nn.Module) -> list[tuple[nn.Module, str, Any]]:
    """Return the hooks that do the same for recurrences that are modules themselves."""
    if not any(_hook_of(kind) for kind in {type(part) for part in modules_of(module)}):
        return []
    parts = parts_with_hooks(module)
    return [(part, "before", hook) for part in parts if (hook := _hook_of(type(part)))]


@functools.cache  # every forward asks for every class of the model
def _hook_of(kind: type[nn.Module]) -> Callable[..., Any] | None:
    """The hook of a class of modules; None if it is no recurrence."""
    names = _parameter_names(kind.forward)[1:]  # without `self`
    parameters = _mixing_names(names)
    if not parameters:
        return None
    return lambda part, args, kwargs: _mark(names, parameters, args, kwargs)


def _recurrences_in(name: str) -> tuple[str, ...]:
    """The names of the recurrences in a Python module; a notebook gets new ones as it runs."""
    return _search_recurrences(name) if name == "__main__" else _known_recurrences(name)


def _search_recurrences(name: str) -> tuple[str, ...]:
    functions = [one for one in vars(sys.modules[name]).items() if isinstance(one[1], FunctionType)]
    return tuple(key for key, value in functions if _mixing_names(_parameter_names(value)))


_known_recurrences = functools.cache(_search_recurrences)


@functools.cache
def _scope_of(name: str) -> SharedScope:
    """The scope in which the recurrences of a Python module are replaced."""
    return SharedScope(lambda: _replace_recurrences(name))


@contextmanager
def _replace_recurrences(name: str) -> Iterator[None]:
    namespace = vars(sys.modules[name])
    replaced = {key: namespace[key] for key in _recurrences_in(name)}
    for key, function in replaced.items():
        namespace[key] = _marking(function, _mixing_names(_parameter_names(function)))
    try:
        yield
    finally:
        namespace.update(replaced)


def _marking(function: FunctionType, parameters: frozenset[str]) -> Callable[..., Any]:
    """The function, which marks its mixing parameters before it runs."""
    names = _parameter_names(function)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _mark(names, parameters, args, kwargs)
        return function(*args, **kwargs)

    return run


def _mark(
    names: tuple[str, ...], parameters: frozenset[str], args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call, with those of `parameters` marked."""
    named = zip(names, args, strict=False)  # a call may leave out the last ones
    marked = [mixing_parameter(value) if name in parameters else value for name, value in named]
    return (*marked, *args[len(names) :]), {
        name: mixing_parameter(value) if name in parameters else value
        for name, value in kwargs.items()
    }


def _mixing_names(names: tuple[str, ...]) -> frozenset[str]:
    """The names of what decides the mixing; empty if a function with these names is none."""
    return next((kind for kind in _KINDS if kind.issubset(names)), frozenset())


def _parameter_names(function: Any) -> tuple[str, ...]:
    """The names of a function's parameters, in order; none for one that is not written in Python.

    The function below its decorators counts: they often take any arguments.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ()
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
