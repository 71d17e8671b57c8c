"""What a method says about itself: its paper, its promises, and its options by its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.errors import OptionError
from whyformer.registry import Registry, nearest

Compute = Callable[..., Tensor]

methods: Registry[Method] = Registry("method", "whyformer.methods")


@dataclass(frozen=True)
class Method:
    """One method: `compute(capture, **options)` gives scores, (batch, tokens)."""

    name: str
    title: str
    paper: str
    compute: Compute
    promises: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # option -> default

    @property
    def promises_sum(self) -> bool:
        """Whether scores and sinks add up to the explained value."""
        return bool({"conservation", "completeness"} & set(self.promises))

    @property
    def keeps(self) -> tuple[str, ...]:
        """What `explain(keep=...)` can hold on to: walks have maps, rules have relevance."""
        has = {"maps": "reduce", "relevance": "rules"}
        return (
            "states",
            "attention",
            "gradient",
            *(part for part, option in has.items() if option in self.options),
        )

    def __call__(self, capture: Capture, **options: Any) -> Tensor:
        self.check(options)
        return self.compute(capture, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuses an option that this method does not know, and names those it does."""
        for option in options:
            if option not in self.options:
                known = ", ".join(f"{k}={v!r}" for k, v in self.options.items()) or "none"
                raise OptionError(
                    f"method '{self.name}' has no option {option!r}."
                    f"{nearest(option, self.options)} Its options: {known}."
                )
            kind, value = type(self.options[option]), options[option]
            if kind is not type(None) and type(value) is not kind:
                raise OptionError(
                    f"{option}={value!r} of method '{self.name}' is a {type(value).__name__};"
                    f" expected a {kind.__name__} such as {self.options[option]!r}"
                )


def method(
    name: str, *, title: str, paper: str, promises: tuple[str, ...] = ()
) -> Callable[[Compute], Compute]:
    """Registers a function as a method; its keyword-only arguments are the method's options."""

    def register(compute: Compute) -> Compute:
        options = {
            key: parameter.default
            for key, parameter in inspect.signature(compute).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
        methods.register(name, Method(name, title, paper, compute, promises, options))
        return compute

    return register


def choose(option: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise OptionError(f"{option}={value!r}: choose one of {', '.join(map(repr, choices))}")
    return value
