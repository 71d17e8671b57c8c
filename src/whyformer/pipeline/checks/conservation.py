"""Do scores and sinks sum to the output, and which operations lost the rest?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Reason, Trust
from whyformer.attribution.conservation import (
    CONSERVED,
    NOT_EXPECTED,
    describe_conservation,
    percent,
)
from whyformer.attribution.trust import merge_trust
from whyformer.methods import Method
from whyformer.pipeline.checks.tolerances import Tolerance, tolerance_of

# The error of an estimate (a numerical integral) that is only a note.
_ESTIMATE = Tolerance(0.05, 0.01)
_NO_SUM = Reason("conservation", "ok", NOT_EXPECTED)
_CONSERVED = Reason("conservation", "ok", CONSERVED)


@dataclass(frozen=True)
class _Sum:
    """The sum of one sample, and what rounding allows."""

    output: float
    total: float  # of scores and sinks
    terms: float  # of their sizes
    tolerance: Tolerance

    @property
    def difference(self) -> float:
        return self.total - self.output

    @property
    def is_exact(self) -> bool:
        return abs(self.difference) <= self.tolerance.value * abs(self.output)

    @property
    def allowed(self) -> float:
        """The largest difference that rounding explains."""
        return self.allow(self.tolerance)

    def allow(self, tolerance: Tolerance) -> float:
        """The largest difference within a tolerance."""
        value, terms = tolerance
        return value * abs(self.output) + terms * (self.terms + abs(self.output))

    def share(self, amount: float) -> float:
        """The amount as a share of the output."""
        return amount / self.output if self.output else math.inf


def conservation_reasons(
    attribution: Attribution, method: Method, dtype: torch.dtype, leaks: Mapping[str, Tensor]
) -> tuple[Reason, ...]:
    """Return what is missing from the sum of each sample, and the operations that lost it.

    Args:
        attribution: The scores, sinks and output.
        method: What the method promises.
        dtype: The precision that the model computed in.
        leaks: Relevance lost in operations without a rule, (batch,) by operation.
    """
    if not method.promises_sum:
        return (_NO_SUM,)
    sums = _sums(attribution, dtype)
    lost = torch.stack([*leaks.values()], 1).tolist() if leaks else [()] * len(sums)
    parts = []
    for sample, (one, amounts) in enumerate(zip(sums, lost, strict=True)):
        losses = dict(zip(leaks, amounts, strict=True))
        # A leak is what the output has and neither tokens nor sinks received.
        is_explained = abs(one.difference + sum(amounts)) <= one.allowed
        reasons = (
            *_name_operations(one, losses, attribution.method),
            _judge_sum(one, attribution, method, is_explained),
        )
        parts.append((Trust(reasons), (sample,)))
    return merge_trust(parts).reasons


def merged_conservation_reasons(
    attribution: Attribution, method: Method, dtype: torch.dtype
) -> tuple[Reason, ...]:
    """Return what is missing from sums over several rows, whose operations are named already."""
    if not method.promises_sum:
        return (_NO_SUM,)
    parts = []
    for sample, one in enumerate(_sums(attribution, dtype)):
        named = attribution.trust.take((sample,)).warnings
        is_explained = any(reason.kind == "operations" for reason in named)
        reason = _judge_sum(one, attribution, method, is_explained)
        parts.append((Trust((reason,)), (sample,)))
    return merge_trust(parts).reasons


def _sums(attribution: Attribution, dtype: torch.dtype) -> list[_Sum]:
    """The sum of every sample."""
    columns = [stream.scores.double() for stream in attribution.streams.values()]
    columns += [sink.double().unsqueeze(1) for sink in attribution.sinks.values()]
    terms = torch.cat(columns, dim=1)
    numbers = torch.stack([attribution.output.double(), terms.sum(1), terms.abs().sum(1)], dim=1)
    tolerance = tolerance_of(dtype)
    return [_Sum(output, total, size, tolerance) for output, total, size in numbers.tolist()]


def _judge_sum(one: _Sum, attribution: Attribution, method: Method, is_explained: bool) -> Reason:
    """What the sum of one sample tells; `is_explained` if the named operations lost the rest."""
    missing = abs(one.share(one.difference))
    if not math.isfinite(one.total):
        text = "The sum of scores and sinks is not a finite number."
        return Reason("conservation", "warning", text, share=math.inf)
    if one.is_exact:
        return _CONSERVED
    if abs(one.difference) <= one.allowed:
        text = (
            f"The output is near 0 ({one.output:.2g}) beside scores and sinks ({one.terms:.2g} in"
            " size): they sum to it within rounding, and smaller losses cannot be seen."
        )
        return Reason("conservation", "note", text, share=missing)
    share = one.share(one.total)
    text = describe_conservation(share, tolerance=0)
    if not one.output:
        text = f"The output is 0, and scores and sinks sum to {one.total:.2g}."
    if attribution.options.get("activations") == "gradient":
        # The paper's own method: its smooth activations are known to lose relevance.
        text = describe_conservation(share, smooth=True, tolerance=0)
        return Reason("conservation", "note", text, share=missing)
    if method.sums == "completeness":
        text += " This is the error of the estimate."
        text += " Pass a larger steps=." * ("steps" in attribution.options)
        is_close = abs(one.difference) <= one.allow(_ESTIMATE)
        return Reason("conservation", "note" if is_close else "warning", text, share=missing)
    if not is_explained:
        verbs = ("too much", "added") if one.difference * one.output > 0 else ("missing", "lost")
        text += f" {percent(missing)} is {verbs[0]}, and no operation is known to have {verbs[1]}"
        text += " it."
    return Reason("conservation", "warning", text, share=missing)


def _name_operations(one: _Sum, losses: Mapping[str, float], method: str) -> tuple[Reason, ...]:
    """The operations that lost more than rounding explains, or made it not finite."""
    found = {
        name: abs(one.share(loss))
        for name, loss in losses.items()
        if not abs(loss) <= one.allowed  # also true for NaN
    }
    if not found:
        return ()
    culprits = tuple(sorted(found, key=lambda name: -found[name]))
    shares = ", ".join(f"{name} ({percent(found[name])})" for name in culprits)
    return (
        Reason(
            "operations",
            "warning",
            f"'{method}' conserves relevance, but these operations of the model have no rule and"
            f" lost a share of it: {shares}.",
            culprits,
            found[culprits[0]],
        ),
    )
