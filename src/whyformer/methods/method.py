"""What a method says about itself: its paper, its promises, and its options by its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, get_args, get_type_hints

from whyformer.engine.capture import Capture, Scores
from whyformer.errors import OptionError
from whyformer.registry import Registry, nearest

Compute = Callable[..., Scores]

methods: Registry[Method] = Registry("method", "whyformer.methods")


@dataclass(frozen=True)
class Method:
    """One method: `compute(capture, **options)` gives scores, (batch, tokens) by stack."""

    name: str
    title: str
    paper: str
    compute: Compute
    promises: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # option -> default
    kinds: Mapping[str, tuple[type, ...]] = field(default_factory=dict)  # option -> its types

    @property
    def promises_sum(self) -> bool:
        """Whether scores and sinks add up to the explained value."""
        return bool({"conservation", "completeness"} & set(self.promises))

    @property
    def keeps(self) -> tuple[str, ...]:
        """What `explain(keep=...)` can hold on to: walks have maps, rules have relevance."""
        has = {"maps": {"reduce"}, "relevance": {"rules", "use_lrp"}}
        return (
            "states",
            "attention",
            "gradient",
            *(part for part, options in has.items() if options & set(self.options)),
        )

    def __call__(self, capture: Capture, **options: Any) -> Scores:
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
            kinds, value = self.kinds[option], options[option]
            if type(value) not in kinds:
                listed = " or ".join(k.__name__ for k in kinds if k is not NoneType)
                raise OptionError(
                    f"{option}={value!r} of method '{self.name}' is a {type(value).__name__};"
                    f" expected a {listed} such as {self.options[option]!r}"
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
        hints = get_type_hints(compute)
        kinds = {key: get_args(hints[key]) or (hints[key],) for key in options}
        methods.register(name, Method(name, title, paper, compute, promises, options, kinds))
        return compute

    return register


def choose(option: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise OptionError(f"{option}={value!r}: choose one of {', '.join(map(repr, choices))}")
    return value
