"""One forward and one backward pass under a table of rules: gradients at the token states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from whyformer.attribution import Nodes, Reason
from whyformer.engine.backward import gradients_at
from whyformer.engine.balance import book_again_if_mixed_up
from whyformer.engine.forward import Trace
from whyformer.engine.hidden import cut_reasons, hidden_reasons
from whyformer.engine.nodes import NodeRecorder
from whyformer.engine.passes.forward_only import (
    ForwardPass,
    Recording,
    States,
    Table,
    differentiable_value,
    record_forward,
)
from whyformer.engine.passes.tower import TowerRelevance, tower_relevance
from whyformer.engine.recording import missing_operation
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run

# Rules of operations that mix tokens.
MIXING = ("attention", "recurrence")


@dataclass(frozen=True)
class Gradients:
    """Token states and the gradient there.

    Attributes:
        forward: The explained value, the token layout and the token states.
        gradient: (batch, tokens, hidden) by stack.
        sinks: Relevance that went to biases and other constants, (batch,) by name.
        leaks: Relevance lost in operations without a rule, (batch,) by operation.
        nodes: Relevance of inner nodes by stack, if the user keeps them.
        reasons: What decides how far to trust the gradient.
        patches: Relevance that went on through an image encoder, if the run asks for it.
    """

    forward: ForwardPass
    gradient: States
    sinks: Mapping[str, Tensor]
    leaks: Mapping[str, Tensor]
    nodes: Mapping[str, Nodes] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    patches: TowerRelevance | None = None

    def relevance(self) -> Scores:
        """Return gradient x input, summed over the hidden axis, (batch, tokens) by stack."""
        return _relevance(self.forward.states, self.gradient)

    def result(self) -> MethodResult:
        """Return gradient x input as a method's result."""
        return MethodResult(
            self.forward,
            self.relevance(),
            sinks=self.sinks,
            leaks=self.leaks,
            nodes=self.nodes,
            reasons=self.reasons,
            patches=self.patches,
        )


def _relevance(states: States, gradient: States) -> Scores:
    """Gradient x input, summed over the hidden axis, (batch, tokens) by stack."""
    return {name: (wide(one) * wide(gradient[name])).sum(-1) for name, one in states.items()}


def gradients(
    run: Run,
    table: Table,
    at: str = "states",
    conserve: bool = False,
    states: States | None = None,
    needs: tuple[str, ...] = (),
) -> Gradients:
    """Return the gradient of the explained value at the token states, under a table of rules.

    Args:
        run: The model on a batch.
        table: {torch function: rule}.
        at: Where token states are read: "states" or "embeddings".
        conserve: Book where relevance goes that does not reach a token.
        states: Token states to run with instead of the model's own.
        needs: Rules of which one must have applied. Without it the scores would be another
            method's.
    """

    def record() -> Recording:
        trace, ledger = Trace(at=at, replace=states or {}), run.new_ledger(conserve)
        nodes = NodeRecorder(run, trace, ledger) if "nodes" in run.keep else None
        return record_forward(run, table, trace, ledger, nodes=nodes)

    settings = ("gradients", table, at, conserve)
    recorded = record() if states else run.record(settings, record)
    trace, ledger, recorder = recorded.trace, recorded.ledger, recorded.nodes
    forward = recorded.aim(run)
    if needs and not any(ledger.counts[rule] for rule in needs):
        raise missing_operation(needs[0])
    value = differentiable_value(forward.goal)
    places = recorder.places if recorder else {}
    lowest = [*trace.states.values()]
    keep_graph = run.keeps_graph or ledger.may_mix_up
    slopes = gradients_at(value, {"states": lowest, **places}, keep_graph)
    nodes = recorder.read(forward.layout, slopes) if recorder else {}
    gradient = run.by_stack(trace.states, slopes["states"])
    if ledger.active:
        scores = _relevance(forward.states, gradient).values()
        book_again_if_mixed_up(ledger, value, lowest, scores)
        ledger.book_hidden(value, scores)
    reasons = (*hidden_reasons(ledger), *cut_reasons(ledger))
    sinks, leaks = dict(ledger.sinks), dict(ledger.leaks)
    patches = tower_relevance(run, table, gradient) if at == "states" else None
    return Gradients(forward, gradient, sinks, leaks, nodes, reasons, patches)
