"""A forward pass: recorded once, then read for one target after another; no backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from whyformer.engine.checkpointing import InnerMaps, NoMaps
from whyformer.engine.forward import Trace, is_double, run_forward
from whyformer.engine.interception import Interception
from whyformer.engine.nodes import NodeRecorder, WatchedInterception
from whyformer.engine.recording import AttentionRecorder
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations.names import Function
from whyformer.engine.run import Run
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

    def record() -> Recording:
        trace = Trace(at=at, track=False, replace=states or {})
        return record_forward(run, {}, trace, run.new_ledger(), baseline=baseline)

    if states:
        return record().aim(run)
    return run.record(("forward_only", at, baseline), record).aim(run)


@dataclass(frozen=True)
class Recording:
    """A forward pass under rules, whose output can be read for several targets.

    Attributes:
        output: What the model returned, in the graph; empty after the last target.
        interception: The rules.
        trace: What the hooks saw.
        ledger: Where backward passes book what does not reach a token.
        layout: Whose tokens each stack holds.
        states: Token states where scores are read, detached, (batch, tokens, hidden) by stack.
        nodes: The inner nodes, if the user keeps them.
        maps: The attention maps, if the pass reads them.
    """

    output: list[Any]
    interception: Interception
    trace: Trace
    ledger: Ledger
    layout: TokenLayout
    states: States
    nodes: NodeRecorder | None = None
    maps: AttentionRecorder | None = None

    def aim(self, run: Run) -> ForwardPass:
        """Return the pass with the value of the run's target; empty the books for its backward.

        A target may be a computation on the output, so the rules must see its operations too.
        """
        self.ledger.clear()
        if self.trace.blocks is not None:
            self.trace.blocks.clear()
        (output,) = self.output
        if not run.keeps_graph:
            self.output.clear()  # so that the backward pass does not hold all logits
        with self.interception:
            goal = resolve(run.target, output, run.module, run.batch)
        return ForwardPass(goal, self.layout, self.states)


def record_forward(
    run: Run,
    table: Table,
    trace: Trace,
    ledger: Ledger,
    baseline: bool = False,
    nodes: NodeRecorder | None = None,
    maps: AttentionRecorder | None = None,
) -> Recording:
    """Run the model under a table of rules.

    `nodes` and `maps` record the inner nodes and the attention maps, if they are needed.
    """
    interception = make_interception(run, table, ledger, nodes=nodes)
    arguments = run.batch.baseline_arguments if baseline else run.batch.arguments
    hooks = state_hooks(run, trace, ledger) + (nodes.hooks() if nodes else [])
    inner: InnerMaps | None = None
    if run.drops_blocks and trace.track:
        inner = NoMaps() if maps is None else maps
    output = run_forward(run, trace, interception, hooks, arguments, inner)
    states = states_of(run, trace)
    layout = find_layout(run, states)
    return Recording([output], interception, trace, ledger, layout, states, nodes, maps)


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


def states_of(run: Run, trace: Trace) -> States:
    """Return the token states that a trace saw, detached, (batch, tokens, hidden) by stack."""
    return run.by_stack(trace.states, [s.detach() for s in trace.states.values()])


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
