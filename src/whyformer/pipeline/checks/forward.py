"""Does the model compute the same value under interception as without?

The model runs once more for each method and size of input. Sizes are rounded up to powers of two,
so that texts of many lengths need few of these passes. Weights that were written to are checked
again.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from whyformer.attribution import Reason
from whyformer.attribution.conservation import percent
from whyformer.engine.half_precision import has_half_weights
from whyformer.engine.plain_forward import plain_value
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.errors import WhyformerError
from whyformer.models.fork_safe import fork_safe
from whyformer.models.weights import weights_version
from whyformer.pipeline.checks.tolerances import tolerance_of
from whyformer.pipeline.request import Request

# What was found for a module: the version of its weights, and the finding by kind of call.
_found: WeakKeyDictionary[nn.Module, tuple[int, dict[Hashable, Reason]]] = WeakKeyDictionary()
_lock = fork_safe(threading.Lock())
_SAME = Reason("forward", "ok", "The model computes the same value as without whyformer.")


def forward_reason(
    request: Request, run: Run, result: MethodResult, autocast: bool = False
) -> Reason:
    """Return whether the plain model gives the explained value; it must be borrowed.

    With `autocast`, the model computes in another precision than the explanation.
    """
    key = _kind_of_call(request, run)
    version = weights_version(run.module)
    with _lock:
        checked, known = _found.get(run.module, (None, {}))
        if checked != version:
            known = {}
            _found[run.module] = version, known
        if key in known:
            return known[key]
    reason = _compare(run, result, autocast or has_half_weights(run.module))
    if reason.level != "warning":  # a difference depends on the input: look again
        with _lock:
            known[key] = reason
    return reason


def _kind_of_call(request: Request, run: Run) -> Hashable:
    """What decides which rules and kernels run."""
    sizes = tuple(
        (name, value.dtype, *(n if n < 2 else (n - 1).bit_length() for n in value.shape))
        for name, value in run.batch.arguments.items()
        if isinstance(value, Tensor)
    )
    target = getattr(run.target, "__code__", type(run.target))
    return request.method.name, repr(request.options), target, torch.is_autocast_enabled(), sizes


def _compare(run: Run, result: MethodResult, rounded: bool) -> Reason:
    goal = result.forward.goal
    try:
        plain, largest = plain_value(run, goal, seed=0)
        difference, allowed = _difference(goal.value, plain, largest)
        if bool((difference <= allowed).all()):
            return _SAME
        again, _ = plain_value(run, goal, seed=1)
    except (WhyformerError, RuntimeError, ValueError, TypeError, IndexError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        text = f"The model without whyformer could not be run for comparison: {reason}"
        return Reason("forward", "note", text if text.endswith(".") else f"{text}.")
    worst = int((difference - allowed).nan_to_num(torch.inf, torch.inf).argmax())
    values = f"{float(goal.value.detach()[worst]):.4g} instead of {float(plain[worst]):.4g}"
    share = float(difference[worst] / plain[worst].double().abs().cpu().clamp(min=1e-30))
    if bool((_difference(again, plain, largest)[0] > allowed).any()):
        text = (
            "The model draws random numbers: another pass over the same input gave"
            f" {values}. Explanations differ from call to call."
        )
        return Reason("forward", "note", text, share=share)
    if rounded and bool(goal.value.isfinite().all()):
        text = (
            f"The explained value is that of float32 weights and states: {values} in the model's"
            f" own, lower precision, a difference of {percent(share)}."
        )
        return Reason("precision", "note", text, share=share)
    samples = tuple((~(difference <= allowed)).nonzero().flatten().tolist())
    text = (
        f"The model computes another value while it is explained: {values}, a difference of"
        f" {percent(share)}. The explanation is about another computation than the model's own."
    )
    everyone = len(samples) == len(plain)
    return Reason("forward", "warning", text, share=share, samples=None if everyone else samples)


def _difference(value: Tensor, plain: Tensor, largest: float) -> tuple[Tensor, Tensor]:
    """How far the values are apart and how far they may be, (batch,) both."""
    ours, theirs = value.detach().double().cpu(), plain.double().cpu()
    # Many models compute parts in float32 whatever their precision; under rules these are float64.
    tolerance = tolerance_of(torch.float32 if plain.dtype == torch.float64 else plain.dtype)
    return (ours - theirs).abs(), tolerance.value * theirs.abs() + tolerance.terms * largest
