"""The forward pass: the model run under rules, with hooks where token states enter and leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.block_relevance import BlockRelevance
from whyformer.engine.blocks import find_module
from whyformer.engine.checkpointing import InnerMaps, check_no_graph_escaped, checkpoint_blocks
from whyformer.engine.custom_functions import open_functions
from whyformer.engine.failures import forward_failure
from whyformer.engine.half_precision import in_float32
from whyformer.engine.interception import HIDDEN, Interception
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.run import Run
from whyformer.engine.scope import add_hooks
from whyformer.errors import ModelError, WhyformerError
from whyformer.models.families import Pair
from whyformer.models.parts import modules_of
from whyformer.models.recurrences import mark_mixing_parameters, recurrence_hooks
from whyformer.models.undo import use_mode

Hook = tuple[nn.Module, str, Any]  # module, "before" or "after", function


@dataclass
class Trace:
    """How a forward pass is tracked, and the tensors that its hooks saw; private to the engine.

    The first four fields are settings. The hooks fill the rest while the model runs.
    """

    at: str = "states"  # where token states are read: "states" or "embeddings"
    track: bool = True  # build the graph from the states on; else from the last block's output on
    replace: Mapping[str, Tensor] = field(default_factory=dict)  # states to run with, by stack
    leaf: str | None = None  # an argument to track as well (an image's pixels)
    states: dict[str, Tensor] = field(default_factory=dict)  # token states by stack
    exits: dict[str, Tensor] = field(default_factory=dict)  # what the head reads, by stack
    entering: list[Tensor] = field(default_factory=list)  # input of each block
    entered: list[nn.Module] = field(default_factory=list)  # the blocks, in the order they ran
    leaving: list[Tensor] = field(default_factory=list)  # output of each block
    pairs: list[tuple[Pair, bool]] = field(default_factory=list)  # whose attention runs now
    blocks: BlockRelevance | None = None  # relevance at block inputs, if the method reads it
    arguments: dict[str, Any] = field(default_factory=dict)


def run_forward(
    run: Run,
    trace: Trace,
    interception: Interception,
    hooks: Sequence[Hook],
    arguments: Mapping[str, Any],
    checkpoint: InnerMaps | None = None,
) -> Any:
    """Return the model's raw output; `trace` holds what the hooks saw.

    If the family declares an `output_module`, return the output of that sub-module. With
    `checkpoint`, which records the attention maps inside, the graph of each block is built when the
    backward pass reaches it.
    """
    # Detached: what the user passed must not become the leaf that the graph starts from.
    trace.arguments = {
        key: _own_copy(value) if isinstance(value, Tensor) else value
        for key, value in arguments.items()
    }
    if trace.leaf is not None:
        tags.add_tag(trace.arguments[trace.leaf].requires_grad_(), tags.PIXELS)
    part_outputs: list[Any] = []
    path = run.family.output_module if run.family else ""
    part = find_module(run.module, path) if path else None
    if part is not None:
        hooks = [*hooks, (part, "after", lambda m, args, out: part_outputs.append(out))]
    parts = modules_of(run.module)
    under_rules = partial(_under_rules, parts, interception, recurrence_hooks(parts))
    blocks = (
        nullcontext()
        if checkpoint is None
        else checkpoint_blocks(run, interception, under_rules, checkpoint)
    )
    try:
        with add_hooks([*hooks]), under_rules(), blocks:
            output = _call(run.module, trace.arguments)
    except WhyformerError:
        raise
    except Exception as error:
        raise forward_failure(run.module, arguments, error) from error
    _check_blocks_ran(run, trace)
    output = part_outputs[-1] if part_outputs else output
    if checkpoint is not None:
        check_no_graph_escaped(run, output, [*_leaves_of(trace), *checkpoint.places])
    return output


def alias_output(output: Any) -> tuple[Any, list[tuple[Tensor, Tensor]]]:
    """Return the output with an alias for each tensor, and the (tensor, alias) pairs.

    The gradient of the target at an alias is that of the output tensor itself, even where one
    output tensor was computed from another.
    """
    pairs: list[tuple[Tensor, Tensor]] = []
    return _alias(output, pairs), pairs


def _alias(value: Any, pairs: list[tuple[Tensor, Tensor]]) -> Any:
    """The value with an alias for each tensor; the pairs are added to `pairs`."""
    if isinstance(value, Tensor):
        if not value.requires_grad:
            return value
        pairs.append((value, value.view_as(value)))
        return pairs[-1][1]
    if isinstance(value, Mapping):
        return type(value)(**{key: _alias(one, pairs) for key, one in value.items()})
    if type(value) in (tuple, list):
        return type(value)(_alias(one, pairs) for one in value)
    return value


def is_double(module: nn.Module) -> bool:
    """Return whether the model computes in float64."""
    floating = (p for p in module.parameters() if p.is_floating_point())
    return next(floating, torch.empty(0)).dtype == torch.float64


def _own_copy(tensor: Tensor) -> Tensor:
    """The tensor detached; those of inference mode cannot be tracked, so they are copied."""
    return tensor.detach().clone() if tensor.is_inference() else tensor.detach()


@contextmanager
def _under_rules(
    parts: Sequence[nn.Module], interception: Interception, marks: Sequence[Hook]
) -> Iterator[None]:
    """A scope in which the model's code runs under the rules; blocks may run in it again."""
    widened = in_float32(parts)  # before the interception, which would see every look at a weight
    with (
        add_hooks([*marks]),
        mark_mixing_parameters(parts),
        use_mode(interception),
        open_functions(),
        widened,
    ):
        yield


def _leaves_of(trace: Trace) -> list[Tensor]:
    """The leaves that the pass made."""
    pixels = [] if trace.leaf is None else [trace.arguments[trace.leaf]]
    return [*trace.states.values(), *pixels]


def _call(module: nn.Module, arguments: Mapping[str, Any]) -> Any:
    """The model's output; raise ModelError if it uses gradient checkpointing."""
    try:
        with torch.autograd.graph.disable_saved_tensors_hooks(HIDDEN):
            return module(**arguments)
    except RuntimeError as error:
        if str(error) != HIDDEN:
            raise
        raise ModelError(
            f"{type(module).__name__} cannot be explained: {HIDDEN}",
            argument="model",
            remedy="Switch gradient checkpointing off for explanations",
        ) from error


def _check_blocks_ran(run: Run, trace: Trace) -> None:
    """Raise ModelError if a stack's states never entered its blocks."""
    for name, track in run.stacks.tracks.items():
        if name in trace.states or track.stack.hidden:
            continue
        where = "its blocks" if run.stacks.only else f"the blocks of its stream '{name}'"
        raise ModelError(
            f"{run.name} ran without going through {where}",
            argument="blocks",
            remedy="Name the module that token states go through: blocks='path.to.blocks'",
        )
