"""What enters the blocks of a model, and which tokens of it change with an argument of forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.scope import add_hooks
from whyformer.engine.state_hooks import first_floating


class EnteringStates:
    """The token states (batch, tokens, hidden) at some modules, on changed inputs too.

    Args:
        module: The model.
        arguments: What its forward takes.
        paths: The modules, each read when it is called first.
    """

    def __init__(
        self, module: nn.Module, arguments: Mapping[str, Any], paths: Sequence[str]
    ) -> None:
        self._module, self._arguments, self._paths = module, arguments, paths
        self._states = self._run(arguments)
        self._changed: dict[str, dict[str, Tensor]] = {}

    def shape(self, path: str) -> tuple[int, ...]:
        """Return the shape of the states that enter a module."""
        return tuple(self._states[path].shape)

    def columns(self, path: str, name: str) -> list[int]:
        """Return the tokens that enter a module otherwise if an argument's entries move."""
        if name not in self._changed:
            self._changed[name] = self._run({**self._arguments, name: self.moved(name)})
        before, after = self._states[path], self._changed[name].get(path)
        if after is None or before.shape != after.shape:
            return [*range(before.shape[1])]  # it never got there, or with other tokens
        return (before != after).any(-1).any(0).nonzero().flatten().tolist()

    def moved(self, name: str) -> Tensor:
        """Return an argument with its entries moved on by one; numbers also change."""
        value: Tensor = self._arguments[name]
        return value.roll(1, -1) + 1 if value.is_floating_point() else value.roll(1, -1)

    def _run(self, arguments: Mapping[str, Any]) -> dict[str, Tensor]:
        entered: dict[str, Tensor] = {}

        def reader(path: str) -> Any:
            def before(part: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
                states = first_floating(args, kwargs)
                if states is not None and path not in entered:
                    entered[path] = states.detach().clone()

            return before

        hooks = [(self._module.get_submodule(path), "before", reader(path)) for path in self._paths]
        try:
            with add_hooks(hooks), torch.no_grad():
                self._module(**arguments)
        except Exception:
            return entered  # changed inputs may not fit; what was entered before counts
        return entered
