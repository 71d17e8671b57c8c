"""How far an attribution can be trusted: gather the reasons, then warn once or refuse."""

from __future__ import annotations

from dataclasses import replace

import torch

from whyformer.attribution import Attribution, Reason
from whyformer.engine.result import MethodResult
from whyformer.errors import (
    ConservationWarning,
    RelevanceWarning,
    TrustError,
    TrustWarning,
    warn_caller,
)
from whyformer.methods import methods
from whyformer.pipeline.checks.conservation import conservation_reasons, merged_conservation_reasons
from whyformer.pipeline.checks.drift import drift_reasons
from whyformer.pipeline.checks.rounding import rounding_reasons
from whyformer.pipeline.checks.values import value_reasons

# The warning of each kind of doubt; the first kind that was found decides.
_CATEGORIES: dict[str, type[TrustWarning]] = {
    "drift": RelevanceWarning,
    "operations": ConservationWarning,
    "conservation": ConservationWarning,
}


def judge_run(attribution: Attribution, result: MethodResult, forward: Reason) -> Attribution:
    """Return the attribution of one run with the reasons that the run gives.

    Args:
        attribution: The scores of the run.
        result: What the method found.
        forward: Whether the model computed what it computes without whyformer.
    """
    method = methods[attribution.method]
    sums = conservation_reasons(attribution, method, _precision(result), result.leaks)
    rounding = rounding_reasons(result, attribution.method, _precision(result))
    reasons = (forward, *drift_reasons(result), *sums, *rounding, *result.reasons)
    return replace(attribution, trust=attribution.trust.add(reasons))


def judge_generated(attribution: Attribution) -> Attribution:
    """Return the attribution of generated texts, with the sums of whole texts judged."""
    trust = attribution.trust.without("conservation")
    dtype = getattr(torch, str(attribution.provenance["dtype"]), torch.float32)
    merged = replace(attribution, trust=trust)
    sums = merged_conservation_reasons(merged, methods[attribution.method], dtype)
    return replace(attribution, trust=trust.add(sums))


def judge_values(attribution: Attribution) -> Attribution:
    """Return the attribution with what its scores themselves tell."""
    return replace(attribution, trust=attribution.trust.add(value_reasons(attribution)))


def refuse_or_warn(attribution: Attribution, strict: bool) -> None:
    """Warn once if the attribution is doubtful; if `strict`, raise TrustError instead."""
    doubts = attribution.trust.warnings
    if not doubts:
        return
    found = f"'{attribution.method}' gave a doubtful explanation. {attribution.trust.summary}"
    if strict:
        raise TrustError(
            found,
            argument="strict",
            remedy="Try another method, or leave out strict=True to get the scores with a warning",
        )
    kinds = {reason.kind for reason in doubts}
    found_in = (category for kind, category in _CATEGORIES.items() if kind in kinds)
    category = next(found_in, TrustWarning)
    warn_caller(f"{found} See attribution.trust before you trust the scores.", category)


def _precision(result: MethodResult) -> torch.dtype:
    """The precision that token states were computed in."""
    states = result.forward.states.values()
    return next((one.dtype for one in states), result.forward.goal.value.dtype)
