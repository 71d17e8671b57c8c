"""Options of methods and metrics: read them from a function's signature, and check values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from whyformer.errors import OptionError
from whyformer.registry import nearest

# The method of `explain` if none is named.
DEFAULT_METHOD = "auto"


def refuse_positional(function: str, arguments: Sequence[Any]) -> None:
    """Raise OptionError if a call has more than inputs and a model without a name."""
    if arguments:
        third = arguments[0]
        shown = repr(third) if isinstance(third, str | int) else f"a {type(third).__name__}"
        raise OptionError(
            f"{function}() takes two arguments without a name, inputs and model; the third is"
            f" {shown}",
            argument="method",
            remedy="Give it by name, such as method='gae', target=1 or processor=tokenizer",
        )


def declared_options(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the defaults and the annotations of a function's keyword-only arguments, by name."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    hints = get_type_hints(function)
    return defaults, {name: hints[name] for name in defaults}


def check_options(
    owner: str,
    options: Mapping[str, Any],
    defaults: Mapping[str, Any],
    annotations: Mapping[str, Any],
) -> None:
    """Raise OptionError if an option is unknown or its value has a wrong type.

    Args:
        owner: Whose options they are, for the message: "method 'gae'".
        options: The options to check, by name.
        defaults: The default of every option that the owner has.
        annotations: The annotation of every option that the owner has.

    Raises:
        OptionError: The owner has no such option, or the value does not fit its annotation.
    """
    for option, value in options.items():
        if option not in defaults:
            known = ", ".join(f"{name}={default!r}" for name, default in defaults.items())
            raise OptionError(
                f"{owner} has no option {option!r}.{nearest(option, defaults)}",
                argument=option,
                remedy=f"Its options: {known or 'none'}",
            )
        if not _fits(value, annotations[option]):
            raise OptionError(
                f"{option}={value!r} of {owner}: expected {_description(annotations[option])}",
                argument=option,
                remedy=f"Pass for example {option}={defaults[option]!r}",
            )


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value fits an annotation; a list fits a tuple, and an int fits a float."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple | list) and all(_fits(one, inner[0]) for one in value)
    return type(value) is annotation or (annotation is float and type(value) is int)


def _description(annotation: Any) -> str:
    """An annotation in words: "a bool", "one of 'down', 'up'", "a tuple of floats"."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin in (Union, UnionType):
        return " or ".join(_description(one) for one in inner if one is not NoneType)
    if origin is tuple:
        return f"a tuple of {inner[0].__name__}s"
    return f"{'an' if annotation is int else 'a'} {annotation.__name__}"
