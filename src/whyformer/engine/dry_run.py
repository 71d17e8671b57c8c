"""A plain forward pass that only watches: which modules ran, on what, and where attention ran."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.forward import is_double
from whyformer.engine.interception import Interception
from whyformer.engine.origins import Origins, origin_of, set_origin
from whyformer.engine.rules.attention_maps import recording_table
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.scope import add_hooks, parts_with_hooks
from whyformer.engine.state_hooks import first_floating

Shape = tuple[int, ...]
_MADE_BY = "_whyformer_made_by"  # attribute of a tensor: the call that returned it


@dataclass(frozen=True)
class Call:
    """One call of a module.

    Attributes:
        name: The module's path.
        outer: The calls around it, outermost first.
        takes: The shape of the first floating tensor that it got; None if there was none.
        gives: The shape of the first tensor that it returned.
        fed_by: The call that returned the tensor that it got.
        origin: The bits of what that tensor was computed from; see `dry_run`.
        left: The same of the tensor that it returned.
    """

    name: str
    outer: tuple[int, ...]
    takes: Shape | None
    gives: Shape | None
    fed_by: int | None
    origin: int = 0
    left: int = 0


@dataclass(frozen=True)
class DryRun:
    """What ran in a forward pass.

    Attributes:
        calls: The calls of modules, in order.
        attentions: The calls around each attention, outermost first.
        batch: The number of samples.
        inputs: The shapes of the arguments.
        meetings: (module, bits) of calls in which followed states meet; see `dry_run`.
        loose: Whether token states may have rows and columns, or parts of samples on axis 0.
    """

    calls: tuple[Call, ...]
    attentions: tuple[tuple[int, ...], ...]
    batch: int
    inputs: frozenset[Shape] = frozenset()
    meetings: tuple[tuple[str, int], ...] = ()
    loose: bool = False

    def inside(self, path: str) -> DryRun:
        """Return the run with only the attentions that ran inside the module at a path."""
        own = [one for one in self.attentions if any(self.calls[call].name == path for call in one)]
        return replace(self, attentions=tuple(own))

    def takes_input(self, call: int) -> bool:
        """Return whether an argument of the model enters a call, such as pixels."""
        return self.calls[call].takes in self.inputs

    def takes_states(self, call: int) -> bool:
        """Return whether token states enter a call."""
        return self._is_states(self.calls[call].takes)

    def gives_states(self, call: int) -> bool:
        """Return whether token states leave a call."""
        return self._is_states(self.calls[call].gives)

    def passes_states(self, call: int) -> bool:
        """Return whether token states enter and leave a call, as many as before unless `loose`."""
        takes, gives = self.calls[call].takes, self.calls[call].gives
        if not (self._is_states(takes) and self._is_states(gives)):
            return False
        return self.loose or takes[:2] == gives[:2]  # type: ignore[index]

    def _is_states(self, shape: Shape | None) -> bool:
        """Whether token states may have this shape."""
        if shape is not None and self.loose:
            return len(shape) > 2 and shape[0] % self.batch == 0
        return is_states(shape, self.batch)


def is_states(shape: Shape | None, batch: int) -> bool:
    """Return whether a shape is (batch, tokens, hidden) or (tokens, batch, hidden)."""
    return shape is not None and len(shape) == 3 and batch in shape[:2]


def dry_run(
    module: nn.Module,
    arguments: Mapping[str, Any],
    batch: int,
    origins: Mapping[str, int] | None = None,
    entries: Mapping[str, int] | None = None,
    forget: bool = False,
    packed: bool = False,
) -> DryRun | None:
    """Return what ran in one forward pass without gradients; None if the model fails.

    Args:
        module: The model.
        arguments: What its forward takes.
        batch: The number of samples.
        origins: A bit for each argument that is followed through the operations.
        entries: A bit for each module, by its path, whose first input is followed as well.
        forget: What enters at `entries` forgets which arguments it was computed from. The run then
            has the calls in which such states meet what was computed from an argument directly.
        packed: States of shape (tokens, hidden) are those of one sample.
    """
    names = parts_with_hooks(module)
    calls: list[Call] = []
    running: list[int] = []
    attentions: list[tuple[int, ...]] = []
    meetings: list[tuple[str, int]] = []
    waiting = dict(entries or {})

    def shape_of(tensor: Tensor) -> Shape:
        return (1, *tensor.shape) if packed and tensor.dim() == 2 else tuple(tensor.shape)

    def before(part: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = first_floating(args, kwargs)
        shape = None if states is None else shape_of(states)
        name, made_by = names[part], getattr(states, _MADE_BY, None)
        calls.append(Call(name, tuple(running), shape, None, made_by, origin_of(states)))
        running.append(len(calls) - 1)
        if states is not None and is_states(shape, batch) and name in waiting:
            set_origin(states, waiting.pop(name) | (0 if forget else origin_of(states)))

    def after(part: nn.Module, args: tuple, output: Any) -> None:
        number = running.pop()
        found = _first_tensor(output)
        if found is not None:
            shape, left = shape_of(found), origin_of(found)
            calls[number] = replace(calls[number], gives=shape, left=left)
            if not any(found is a for a in args):  # dropout hands its input on
                setattr(found, _MADE_BY, number)

    def record(attention: Tensor) -> Tensor:
        attentions.append(tuple(running))
        return attention

    def hold(call: Any, run: Any) -> Tensor:
        attentions.append(tuple(running))
        return run(call)

    def meet(bits: int) -> None:
        meetings.append((calls[running[-1]].name if running else "", bits))

    hooks = [hook for part in names for hook in ((part, "before", before), (part, "after", after))]
    ledger = Ledger(batch, active=False)
    own = {k: v.detach() if isinstance(v, Tensor) else v for k, v in arguments.items()}
    for name, bits in (origins or {}).items():
        set_origin(own[name], bits)
    followed = sum(waiting.values()) if forget else 0
    follow = Origins(followed, meet) if origins else nullcontext()
    interception = Interception(recording_table(record, hold), ledger, is_double(module))
    try:
        with add_hooks(hooks), interception, follow, torch.no_grad():
            module(**own)
    except Exception:
        return None  # the explanation runs the model again, and says what is wrong
    inputs = frozenset(tuple(one.shape) for one in own.values() if isinstance(one, Tensor))
    met = tuple(dict.fromkeys(meetings))
    return DryRun(tuple(calls), tuple(attentions), batch, inputs, met)


def _first_tensor(output: Any) -> Tensor | None:
    """The first tensor that a module returned."""
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, (tuple, list)):
        return next((one for one in output if isinstance(one, Tensor)), None)
    return output if isinstance(output, Tensor) else None
