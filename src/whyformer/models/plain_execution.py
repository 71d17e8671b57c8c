"""Run a model plainly: without autocast, compiled code and checkpoints, whatever is switched on.

The rules have to see every operation while it runs, with its graph. Compiled code hides operations;
a checkpoint runs them again in the backward pass, where no rule sees them; autocast casts below the
rules, whose backward passes would then mix two precisions.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils import checkpoint as torch_checkpoint

from whyformer.attribution import Reason
from whyformer.models.shared_scope import SharedScope
from whyformer.models.signature import device_and_dtype
from whyformer.models.torch_state import TorchState
from whyformer.models.undo import Change

_this_thread = threading.local()


@dataclass(frozen=True)
class Execution:
    """What was ignored while a model ran plainly: the device types of autocast."""

    autocast: set[str] = field(default_factory=set)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """A note if autocast was on around the call or in the model's forward."""
        text = (
            "torch.autocast was on and is ignored: the scores were computed in the precision of"
            " the weights."
        )
        note = Reason("precision", "note", text, culprits=tuple(sorted(self.autocast)))
        return (note,) if self.autocast else ()


@contextmanager
def plain_execution(module: nn.Module) -> Iterator[Execution]:
    """Run what is inside with gradients, without autocast, compiled code and checkpoints.

    That is for this thread, but compiled code runs eagerly in all threads meanwhile: torch knows
    only one stance.
    """
    execution = Execution()
    devices = ("cpu", device_type(module))
    state = TorchState(*devices)
    compiles = "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance")
    with (
        Change(partial(setattr, _this_thread, "execution", None), thread_only=True),
        Change(state.restore, thread_only=True),
        _eager() if compiles else nullcontext(),
        _direct(),
    ):
        state.allow_graphs()
        for device in devices:
            if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
                torch.set_autocast_enabled(device, False)
                execution.autocast.add(device)
        _this_thread.execution = execution
        yield execution


def ignore_autocast(device: str) -> None:
    """Switch autocast off if the model's forward has switched it on.

    The model's own scope restores what was on before it.
    """
    if torch.is_autocast_enabled(device):
        torch.set_autocast_enabled(device, False)
        execution = getattr(_this_thread, "execution", None)
        if execution is not None:
            execution.autocast.add(device)


def device_type(module: nn.Module) -> str:
    """Return the type of the device that the model runs on; "cpu" if it has no parameters."""
    return device_and_dtype(module)[0].type


def _save_stance() -> Callable[[], Any]:
    from torch._dynamo import eval_frame

    return partial(eval_frame._set_stance, eval_frame._stance)


def _run_eagerly() -> None:
    torch.compiler.set_stance("force_eager")


def _save_checkpoints() -> Callable[[], None]:
    names = ("CheckpointFunction", "_checkpoint_without_reentrant_generator")
    namespace = vars(torch_checkpoint)
    return partial(namespace.update, {name: namespace[name] for name in names})


def _run_directly() -> None:
    """Let checkpoints of an explaining thread run their function directly.

    `checkpoint` finds its two implementations in its module when it is called. Models hold
    `checkpoint` itself, so it cannot be replaced; its implementations can.
    """
    module: Any = torch_checkpoint
    module.CheckpointFunction = _ReentrantCheckpoint(module.CheckpointFunction)
    recording = module._checkpoint_without_reentrant_generator
    module._checkpoint_without_reentrant_generator = _non_reentrant(recording)


class _ReentrantCheckpoint:
    """Stands in for torch's `CheckpointFunction`."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def apply(self, function: Callable[..., Any], preserve_random: bool, *args: Any) -> Any:
        """Return the function's output, without a checkpoint in an explaining thread."""
        if _runs_plainly():
            return function(*args)
        return self.original.apply(function, preserve_random, *args)


def _non_reentrant(original: Callable[..., Iterator[None]]) -> Callable[..., Iterator[None]]:
    """The generator around a checkpointed call; it records nothing in an explaining thread."""

    def around_call(
        function: Callable[..., Any],
        preserve_random: bool,
        contexts: Callable[[], Any],
        *args: Any,
        **kwargs: Any,
    ) -> Iterator[None]:
        if not _runs_plainly():
            yield from original(function, preserve_random, contexts, *args, **kwargs)
            return
        forward_context, _ = contexts()
        with forward_context:
            yield

    return around_call


def _runs_plainly() -> bool:
    return getattr(_this_thread, "execution", None) is not None


_eager = SharedScope(_save_stance, _run_eagerly)
_direct = SharedScope(_save_checkpoints, _run_directly)
