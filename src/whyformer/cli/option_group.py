"""A parameter of a command that stands for several options, such as all that choose an engine."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Run = Callable[..., None]


@dataclass(frozen=True)
class OptionGroup:
    """Options that several commands share.

    Args:
        parameter: The name of the parameter of a command that takes them.
        options: Their annotations and defaults by name.
        read: Returns what the command gets, given the values by name.
    """

    parameter: str
    options: Mapping[str, tuple[Any, Any]]
    read: Callable[[dict[str, Any]], Any]

    def expand(self, run: Run) -> Run:
        """Return the command with the options in place of the parameter, if it has it."""
        signature = inspect.signature(run, eval_str=True)
        if self.parameter not in signature.parameters:
            return run

        @functools.wraps(run)
        def expanded(**values: Any) -> None:
            own = {name: values.pop(name) for name in self.options}
            run(**values, **{self.parameter: self.read(own)})

        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            parameters += self._parameters() if parameter.name == self.parameter else [parameter]
        expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {p.name: p.annotation for p in parameters}
        return expanded

    def _parameters(self) -> list[inspect.Parameter]:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [
            inspect.Parameter(name, kind, default=default, annotation=annotation)
            for name, (annotation, default) in self.options.items()
        ]
