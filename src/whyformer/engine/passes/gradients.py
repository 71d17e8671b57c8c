"""One forward and one backward pass under a table of rules: gradients at the token states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from whyformer.attribution import Nodes
from whyformer.engine.backward import gradients_at
from whyformer.engine.forward import Trace
from whyformer.engine.nodes import NodeRecorder
from whyformer.engine.passes.forward_only import (
    ForwardPass,
    States,
    Table,
    differentiable_value,
    intercept,
)
from whyformer.engine.recording import missing_operation
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run


@dataclass(frozen=True)
class Gradients:
    """Token states and the gradient there.

    Attributes:
        forward: The explained value, the token layout and the token states.
        gradient: (batch, tokens, hidden) by stack.
        sinks: Relevance that went to biases and other constants, (batch,) by name.
        leaks: Relevance lost in operations without a rule, (batch,) by operation.
        nodes: Relevance of inner nodes by stack, if the user keeps them.
    """

    forward: ForwardPass
    gradient: States
    sinks: Mapping[str, Tensor]
    leaks: Mapping[str, Tensor]
    nodes: Mapping[str, Nodes] = field(default_factory=dict)

    def relevance(self) -> Scores:
        """Return gradient x input, summed over the hidden axis, (batch, tokens) by stack."""
        return {
            name: (wide(states) * wide(self.gradient[name])).sum(-1)
            for name, states in self.forward.states.items()
        }

    def result(self) -> MethodResult:
        """Return gradient x input as a method's result."""
        return MethodResult(
            self.forward, self.relevance(), sinks=self.sinks, leaks=self.leaks, nodes=self.nodes
        )


def gradients(
    run: Run,
    table: Table,
    at: str = "states",
    conserve: bool = False,
    states: States | None = None,
    needs: str | None = None,
) -> Gradients:
    """Return the gradient of the explained value at the token states, under a table of rules.

    Args:
        run: The model on a batch.
        table: {torch function: rule}.
        at: Where token states are read: "states" or "embeddings".
        conserve: Book where relevance goes that does not reach a token.
        states: Token states to run with instead of the model's own.
        needs: A rule that must have applied at least once. Without it the scores would be
            another method's.
    """
    trace, ledger = Trace(at=at, replace=states or {}), run.new_ledger(conserve)
    recorder = NodeRecorder(run, trace, ledger) if "nodes" in run.keep else None
    forward = intercept(run, table, trace, ledger, nodes=recorder)
    if needs and not ledger.counts[needs]:
        raise missing_operation(needs)
    value = differentiable_value(forward.goal)
    places = recorder.places if recorder else {}
    slopes = gradients_at(value, {"states": [*trace.states.values()], **places})
    nodes = recorder.read(forward.layout, slopes) if recorder else {}
    return Gradients(
        forward,
        run.by_stack(trace.states, slopes["states"]),
        dict(ledger.sinks),
        dict(ledger.leaks),
        nodes,
    )
