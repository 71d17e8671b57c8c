"""How far an attribution can be trusted: warnings where relevance was lost or came loose."""

from __future__ import annotations

import warnings

import torch

from whyformer.attribution import Attribution
from whyformer.engine.capture import Capture
from whyformer.errors import ConservationWarning, RelevanceWarning

# How much relevance may go missing before we speak up, by the precision of the model.
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}
_HALF_TOLERANCE = 5e-2
# Relevance should keep its sum from layer to layer; beyond this it has come loose.
_SANE_GROWTH = 100.0
_STACK = 5  # the caller of explain(), which runs a batch in buckets


def warn_of_leaks(attribution: Attribution, capture: Capture) -> None:
    """Warns where an operation without a rule lost relevance, and names it."""
    if capture.ledger is None or not capture.states:
        return
    dtype = next(iter(capture.states.values())).dtype
    tolerance = _TOLERANCE.get(dtype, _HALF_TOLERANCE)
    mass = sum(stream.scores.abs().sum(1) for stream in attribution.streams.values())
    mass = mass + attribution.output.abs()
    mass = mass + sum(sink.abs() for sink in attribution.sinks.values())
    shares = {
        operation: float((leak.cpu().abs() / mass).max())
        for operation, leak in capture.ledger.leaks.items()
    }
    worst = sorted((share, op) for op, share in shares.items() if share > tolerance)
    if worst:
        named = ", ".join(f"{op} ({share:.1%})" for share, op in reversed(worst))
        warnings.warn(
            f"'{attribution.method}' promises that relevance adds up to the explained value, but"
            f" these operations of the model have no rule and lost a share of it: {named}. Read"
            " attribution.conservation before you trust the scores.",
            ConservationWarning,
            stacklevel=_STACK,
        )


def warn_of_drift(attribution: Attribution, capture: Capture) -> None:
    """Warns where the sum of relevance left a sane band between the top layer and another.

    Only under the rules that normalise: the baselines' double it at every linear layer.
    """
    sums = [layer.relevance_sum for layer in capture.layers]
    if attribution.options.get("rules") != "ours" or not sums or sums[-1] is None:
        return
    for number, total in enumerate(sums):
        if total is None:
            continue
        growth = (total / sums[-1]).abs()
        sane = (growth > 1 / _SANE_GROWTH) & (growth < _SANE_GROWTH)
        if not sane.all():
            warnings.warn(
                f"'{attribution.method}': relevance is {float(growth[~sane][0]):.3g} times that of"
                f" the top layer behind layer {number}; it should stay near 1. A denominator near 0"
                " blew it up or cancelled it: do not trust this map. float64 may help; 'gae' does"
                " not divide.",
                RelevanceWarning,
                stacklevel=_STACK,
            )
            return
