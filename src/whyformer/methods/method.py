"""The registry of methods, and what each declares: paper, needs, promises and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.options import check_options, declared_options
from whyformer.registry import Registry

Compute = Callable[..., MethodResult]
Need = Literal["attention", "gradient", "relevance", "removal"]
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
        needs: What it reads from the model: "attention" maps, "gradient", "relevance" of maps, or
            its value after the "removal" of tokens.
        signed: Whether scores can be negative.
        sums: Why scores and sinks add up to the explained value: by "conservation" of relevance
            or by "completeness" of a path integral or of Shapley values; None if they do not.
        rules: The rules it runs the model under: "detach", "relevance", or None for none.
        keeps: The names that `explain(keep=...)` accepts.
        slow: Whether "all methods" leaves it out; it runs only if the user names it.
        alias: Whether it only chooses another method; "all methods" leaves it out.
        options: The default of each option, by name.
        kinds: The annotation of each option, by name.
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
    alias: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, Any] = field(default_factory=dict)

    @property
    def promises(self) -> tuple[str, ...]:
        """What holds for every result: "nonnegative", "conservation" or "completeness"."""
        return (*(() if self.signed else ("nonnegative",)), *((self.sums,) if self.sums else ()))

    @property
    def in_all(self) -> bool:
        """Whether "all methods" has it."""
        return not (self.slow or self.alias)

    @property
    def promises_sum(self) -> bool:
        """Whether scores and sinks add up to the explained value."""
        return self.sums is not None

    def __call__(self, run: Run, **options: Any) -> MethodResult:
        self.check(options)
        return self.compute(run, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise OptionError if an option is unknown or its value has a wrong type."""
        if self.alias and options:
            option = next(iter(options))
            having = [name for name, one in methods.items() if option in one.options]
            raise OptionError(
                f"method '{self.name}' has no option {option!r}: it chooses another method",
                argument=option,
                remedy=f"Name a method that has it: {', '.join(having)}"
                if having
                else "Name the method that has it; see whyformer.methods()",
            )
        check_options(f"method '{self.name}'", options, self.options, self.kinds)


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
    alias: bool = False,
) -> Callable[[Compute], Compute]:
    """Register a function as a method; its keyword-only arguments are the method's options.

    The arguments are the attributes of `Method`; `keeps` names what it can keep beyond `KEEPS`:
    relevancy "maps", the "relevance" of attention maps, and that of inner "nodes".

    Example:
        >>> @method("half", title="Half of everything", paper="none", signed=False)
        ... def half(run: Run, *, seed: int = 0) -> MethodResult: ...
    """

    def register(compute: Compute) -> Compute:
        options, kinds = declared_options(compute)
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
                alias=alias,
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


def check_share(option: str, value: float) -> float:
    """Return the value; raise OptionError if it is not a share from 0 to 1."""
    if not 0 <= value <= 1:
        raise OptionError(
            f"{option}={value} is not a share",
            argument=option,
            remedy="Pass a number from 0 to 1",
        )
    return value
