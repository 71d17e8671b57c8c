"""How far an attribution can be trusted: warnings if relevance leaked or drifted."""

from __future__ import annotations

import torch

from whyformer.attribution import Attribution
from whyformer.engine.result import MethodResult
from whyformer.errors import ConservationWarning, RelevanceWarning, warn_caller

# The share of relevance that may go missing without a warning, by the model's precision.
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}
_HALF_TOLERANCE = 5e-2
# Relevance should keep its sum from layer to layer; a larger factor is a warning.
_SANE_GROWTH = 100.0


def warn_if_leaking(attribution: Attribution, result: MethodResult) -> None:
    """Warn if operations without a rule lost relevance, and name them."""
    if not result.leaks or not result.forward.states:
        return
    dtype = next(iter(result.forward.states.values())).dtype
    tolerance = _TOLERANCE.get(dtype, _HALF_TOLERANCE)
    mass = sum(stream.scores.abs().sum(1) for stream in attribution.streams.values())
    mass = mass + attribution.output.abs()
    mass = mass + sum(sink.abs() for sink in attribution.sinks.values())
    shares = {op: float((leak.cpu().abs() / mass).max()) for op, leak in result.leaks.items()}
    worst = sorted((share, op) for op, share in shares.items() if share > tolerance)
    if worst:
        culprits = ", ".join(f"{op} ({share:.1%})" for share, op in reversed(worst))
        warn_caller(
            f"'{attribution.method}' conserves relevance, but these operations of the model have"
            f" no rule and lost a share of it: {culprits}. Check attribution.conservation before"
            " you trust the scores.",
            ConservationWarning,
        )


def warn_if_drifting(attribution: Attribution, result: MethodResult) -> None:
    """Warn if the sum of relevance changed too much between the top layer and another.

    Only under the rules that normalise; the baselines' rules double it at every linear layer.
    """
    sums = [layer.relevance_sum for layer in result.layers]
    if result.rules != "ours" or not sums or sums[-1] is None:
        return
    for number, total in enumerate(sums):
        if total is None:
            continue
        growth = (total / sums[-1]).abs()
        sane = (growth > 1 / _SANE_GROWTH) & (growth < _SANE_GROWTH)
        if not sane.all():
            warn_caller(
                f"'{attribution.method}': relevance drifted: above layer {number} its sum is"
                f" {float(growth[~sane][0]):.3g} times that of the top layer, and it should stay"
                " near 1. A denominator near 0 caused this. Do not trust this map; try float64, or"
                " a method without relevance rules.",
                RelevanceWarning,
            )
            return
