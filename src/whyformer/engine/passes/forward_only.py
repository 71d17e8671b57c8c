"""A forward pass: the explained value and the token states; no backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from whyformer.engine.forward import Trace, is_double, run_forward
from whyformer.engine.interception import Interception
from whyformer.engine.nodes import NodeRecorder, WatchedInterception
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations.names import Function
from whyformer.engine.run import CHECKPOINT, Run
from whyformer.engine.segments import TokenLayout, find_layout
from whyformer.engine.state_hooks import state_hooks
from whyformer.errors import TargetError
from whyformer.models.plain_execution import device_type
from whyformer.targets.resolve import Goal, resolve

States = dict[str, Tensor]  # (batch, tokens, hidden) by stack
Table = Mapping[Function, Any]  # {torch function: rule}


@dataclass(frozen=True)
class ForwardPass:
    """What a forward pass found.

    Attributes:
        goal: The explained value, still in the graph if there is one.
        layout: Whose tokens each stack holds.
        states: Token states where scores are read, detached, (batch, tokens, hidden) by stack.
    """

    goal: Goal
    layout: TokenLayout
    states: States


def forward_only(
    run: Run, at: str = "states", states: States | None = None, baseline: bool = False
) -> ForwardPass:
    """Run the model once, without rules and without a graph from the states on.

    Args:
        run: The model on a batch.
        at: Where token states are read: "states" or "embeddings".
        states: Token states to run with instead of the model's own.
        baseline: Run on the neutral input instead of the batch's own.
    """
    trace = Trace(at=at, track=False, replace=states or {})
    return intercept(run, {}, trace, run.new_ledger(), baseline=baseline)


def intercept(
    run: Run,
    table: Table,
    trace: Trace,
    ledger: Ledger,
    baseline: bool = False,
    nodes: NodeRecorder | None = None,
) -> ForwardPass:
    """Run the model under a table of rules, and resolve the target under the same rules.

    A target may be a computation on the output, so the rules must see its operations too.
    `nodes` records the inner nodes, if the user keeps them.
    """
    interception = make_interception(run, table, ledger, nodes=nodes)
    arguments = run.batch.baseline_arguments if baseline else run.batch.arguments
    hooks = state_hooks(run, trace, ledger) + (nodes.hooks() if nodes else [])
    checkpoint = run.memory == CHECKPOINT and trace.track
    output = run_forward(run, trace, interception, hooks, arguments, checkpoint)
    with interception:
        goal = resolve(run.target, output, run.module, run.batch)
    return forward_pass(run, trace, goal)


def make_interception(
    run: Run,
    table: Table,
    ledger: Ledger,
    fallback: Any = None,
    nodes: NodeRecorder | None = None,
) -> Interception:
    """Return the mode that runs operations by the table; the family's own rules come first."""
    own = run.family.rules if run.family else {}
    settings = table, ledger, is_double(run.module), fallback, device_type(run.module), own
    return WatchedInterception(nodes.see, *settings) if nodes else Interception(*settings)


def forward_pass(run: Run, trace: Trace, goal: Goal) -> ForwardPass:
    """Return what a trace saw as a frozen value."""
    states = run.by_stack(trace.states, [s.detach() for s in trace.states.values()])
    return ForwardPass(goal, find_layout(run, states), states)


def differentiable_value(goal: Goal) -> Tensor:
    """Return the explained value (batch,); raise TargetError if no gradient can reach it."""
    if not goal.value.requires_grad:
        raise TargetError(
            "the target does not depend on the token states: either its value is the same for"
            " every input, or the model detaches it",
            argument="target",
            remedy="Choose another target",
        )
    return goal.value
