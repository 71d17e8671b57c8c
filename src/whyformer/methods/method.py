"""What a method declares: paper, abilities and options; and the registry of methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.registry import Registry, nearest

Compute = Callable[..., MethodResult]
Need = Literal["attention", "gradient", "relevance"]
Sum = Literal["conservation", "completeness"]
RuleSet = Literal["detach", "relevance"]

KEEPS = ("states", "attention", "gradient")  # every method can keep these

methods: Registry[Method] = Registry("method", "whyformer.methods")


@dataclass(frozen=True)
class Method:
    """One method: `compute(run, **options)` returns a `MethodResult`.

    Attributes:
        name: The name in `explain(method=...)`.
        title: What it computes, in one line.
        paper: Where it is from.
        compute: The function itself.
        needs: What it reads of the model: "attention" maps, a "gradient", "relevance" of maps.
        signed: Whether scores can be negative.
        sums: Why scores and sinks add up to the explained value: by "conservation" of relevance
            or by "completeness" of a path integral; None if they do not.
        rules: The rules it runs the model under: "detach", "relevance", or None for none.
        keeps: What `explain(keep=...)` can hold on to.
        slow: Whether it is left out of "all methods" unless asked for.
        options: Option name -> default.
        kinds: Option name -> the types it takes.
    """

    name: str
    title: str
    paper: str
    compute: Compute
    needs: tuple[Need, ...]
    signed: bool
    sums: Sum | None = None
    rules: RuleSet | None = None
    keeps: tuple[str, ...] = KEEPS
    slow: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, tuple[type, ...]] = field(default_factory=dict)

    @property
    def promises(self) -> tuple[str, ...]:
        """What holds for every result: "nonnegative", "conservation" or "completeness"."""
        return (*(() if self.signed else ("nonnegative",)), *((self.sums,) if self.sums else ()))

    @property
    def promises_sum(self) -> bool:
        """Whether scores and sinks add up to the explained value."""
        return self.sums is not None

    def __call__(self, run: Run, **options: Any) -> MethodResult:
        self.check(options)
        return self.compute(run, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise OptionError for an option that this method does not have, or of a wrong type."""
        for option, value in options.items():
            if option not in self.options:
                known = ", ".join(f"{k}={v!r}" for k, v in self.options.items()) or "none"
                raise OptionError(
                    f"method '{self.name}' has no option {option!r}"
                    f".{nearest(option, self.options)}",
                    argument=option,
                    remedy=f"Its options: {known}",
                )
            kinds = self.kinds[option]
            if type(value) not in kinds:
                expected = " or ".join(k.__name__ for k in kinds if k is not NoneType)
                raise OptionError(
                    f"{option}={value!r} of method '{self.name}' is a {type(value).__name__};"
                    f" expected {expected}",
                    argument=option,
                    remedy=f"Pass for example {option}={self.options[option]!r}",
                )


def method(
    name: str,
    *,
    title: str,
    paper: str,
    needs: tuple[Need, ...] = (),
    signed: bool,
    sums: Sum | None = None,
    rules: RuleSet | None = None,
    keeps: tuple[str, ...] = (),
    slow: bool = False,
) -> Callable[[Compute], Compute]:
    """Register a function as a method; its keyword-only arguments are the method's options.

    The arguments are the attributes of `Method`; `keeps` names what it can keep beyond `KEEPS`:
    relevancy "maps" and the "relevance" of attention maps.

    Example:
        >>> @method("half", title="Half of everything", paper="none", signed=False)
        ... def half(run: Run, *, seed: int = 0) -> MethodResult: ...
    """

    def register(compute: Compute) -> Compute:
        options = {
            key: parameter.default
            for key, parameter in inspect.signature(compute).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
        hints = get_type_hints(compute)
        kinds = {key: get_args(hints[key]) or (hints[key],) for key in options}
        methods.register(
            name,
            Method(
                name=name,
                title=title,
                paper=paper,
                compute=compute,
                needs=needs,
                signed=signed,
                sums=sums,
                rules=rules,
                keeps=(*KEEPS, *keeps),
                slow=slow,
                options=options,
                kinds=kinds,
            ),
        )
        return compute

    return register


def check_choice(option: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """Return the value; raise OptionError if it is not one of the choices."""
    if value not in choices:
        raise OptionError(
            f"{option}={value!r} is unknown",
            argument=option,
            remedy=f"Choose one of {', '.join(map(repr, choices))}",
        )
    return value
