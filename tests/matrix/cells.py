"""One cell of the matrix: is a method right on a model type, and if not, does it say so?

- "right": the scores agree with facts that do not come from whyformer;
- "warned": they may be wrong, and a warning says so;
- "refused": an error of whyformer that says what to do;
- "foreign": any other error, or a refusal that blames whyformer;
- "silent": wrong without a word.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import whyformer as wf
from tests.matrix import by_hand
from tests.matrix.builder import Built
from tests.matrix.facts import (
    Attended,
    answers_alike,
    is_packed,
    one_sample,
    plain_output,
    tensors_of,
    watch,
)
from whyformer.errors import TargetError, WhyformerError

CONSERVED = 1e-6  # of the explained value and of what cancels in it
EQUAL = 1e-6  # of the largest score of a stream
# LRP divides by sums that nearly cancel, and what was rounded away comes back multiplied.
EQUAL_LRP = 1e-4
OWN = 1e-5  # transformers narrows some operations to float32, which whyformer does not let it do
# Plain autograd goes through the softmaxes that transformers narrows to float32.
MISPLACED = 1e-3
# It narrows the norms of these types too: 1.1e-3 on some processors. States of another place differ
# by 1 and more.
MISPLACED_NORMS = {"minimax": 1e-2}
BLAMES = ("bug of whyformer", "fault of whyformer")
# Few steps, and the setting of `lrp_ah_ln` that conserves through activations.
QUICK = {"steps": 4, "activations": "identity"}


@dataclass(frozen=True)
class Cell:
    """The state of one method on one model type, and the reason for it."""

    state: str
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Case:
    """A built model with a batch of two samples, and the facts that scores are held to."""

    built: Built
    inputs: Mapping[str, Any]
    attended: Attended
    target: Any  # None if the model has a head that whyformer reads
    answers: bool  # explain(inputs, model) gives an attribution
    answer: Cell  # what explain(inputs, model) came to
    alike: bool  # the model answers the second sample alone as in the batch
    misplaced: str = ""  # why the token states are not those that enter the first block

    @property
    def model(self) -> nn.Module:
        return self.built.model


def headless(output: Any) -> Tensor:
    """A target for any output: the last five numbers of each sample, summed."""
    scores = next(t for t in tensors_of(output) if t.ndim > 1)
    return scores.reshape(scores.shape[0], -1)[:, -5:].sum(1)


def headless_packed(output: Any) -> Tensor:
    """A target for the output of one list of patches: its last five numbers, summed."""
    return next(tensors_of(output)).flatten()[-5:].sum().reshape(1)


def make_case(built: Built) -> Case:
    """Return the model's case: a batch with padding if the model itself does not mind it."""
    model = built.model
    inputs = built.inputs((7, 5))
    mask = inputs.get("attention_mask")
    padded = isinstance(mask, Tensor) and not bool(mask.all())
    if padded and not _alike(model, inputs):
        inputs = built.inputs((7, 7))
    attended, _ = watch(model, inputs)
    answer = attempt(model, inputs, "auto", None)
    packed = is_packed(inputs)
    target = None
    if isinstance(answer[1], TargetError):
        target = headless_packed if packed else headless
        inputs = built.inputs((7, 7))
    case = Case(
        built,
        inputs,
        attended,
        target,
        answers=answer[0] is not None,
        answer=_error_cell(answer[1]),
        alike=not packed and _alike(model, inputs),
    )
    found, _, _ = attempt(model, inputs, "gradient_x_input", target)
    return replace(case, misplaced=_differs_from_autograd(case, found) if found else "")


def _alike(model: nn.Module, inputs: Mapping[str, Any]) -> bool:
    try:
        return answers_alike(model, inputs, 1, 2)
    except Exception:
        return False


def attempt(
    model: nn.Module, inputs: Mapping[str, Any], method: str, target: Any
) -> tuple[wf.Attribution | None, Exception | None, list[str]]:
    """The attribution or the error, and the warnings.

    Of a language model the next token is explained: writing an answer costs as much as twenty.
    """
    can = getattr(model, "can_generate", None)
    two_parts = getattr(getattr(model, "config", None), "is_encoder_decoder", False) is True
    if target is None and "input_ids" in inputs and can is not None and can() and not two_parts:
        target = wf.token(-1)
    known = wf.methods()[method].options
    options = {name: value for name, value in QUICK.items() if name in known}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = wf.explain(dict(inputs), model, method=method, target=target, **options)
        except Exception as error:
            return None, error, []
    ours = [str(w.message) for w in heard if w.category.__module__.startswith("whyformer.")]
    return found, None, ours


def _error_cell(error: Exception | None) -> Cell:
    """The cell of an error; right if there was none."""
    if error is None:
        return Cell("right")
    text = " ".join(str(error).split())
    blames_us = any(phrase in text for phrase in BLAMES)
    if isinstance(error, WhyformerError) and error.remedy and not blames_us:
        return Cell("refused", type(error).__name__, text)
    last = traceback.extract_tb((error.__cause__ or error).__traceback__)[-1]
    where = f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno} {last.line}"
    return Cell("foreign", type(error).__name__, f"{text} [{where}]")


def run_cell(case: Case, method: str) -> Cell:
    """Explain the case with the method and judge the result."""
    found, error, heard = attempt(case.model, case.inputs, method, case.target)
    if found is None:
        return _error_cell(error)
    fault = _fault(case, method, found)
    if heard:
        return Cell("warned", fault or "warning", heard[0])
    if fault:
        return Cell("silent", fault)
    return Cell("right")


def _fault(case: Case, method: str, found: wf.Attribution) -> str:
    """What is wrong with an attribution, in words; empty if nothing is."""
    declared = wf.methods()[method]
    if not all(one.scores.isfinite().all() for one in found.streams.values()):
        return "scores are not finite"
    if method == "random":
        return ""
    if not any(one.scores.any() for one in found.streams.values()) and method != "grad_cam":
        return "all scores are 0"
    output = plain_output(case.model, case.inputs)
    if not _is_own_value(case, found, output):
        return "the explained value is not the model's own"
    if declared.sums == "conservation":
        lost = _lost(found)
        if lost > CONSERVED:
            return f"scores and sinks do not sum to the output: {lost:.1e} is missing"
    if case.alike:
        far = _distance_to_single(case, method, found)
        if far:
            return far
    # `full_lrp` goes through the operations of every block; the others walk from map to map.
    reads_maps = _reads_maps(method, found)
    if reads_maps and method != "full_lrp" and case.attended.unseen:
        return f"blocks without attention mix tokens: {', '.join(case.attended.unseen)}"
    if "gradient" in declared.needs and not reads_maps and case.misplaced:
        return case.misplaced
    return _differs_from_walk(case, method, found)


def _reads_maps(method: str, found: wf.Attribution) -> bool:
    """Whether the method reads attention maps of these inputs; `blend` does for images alone."""
    if method == "blend" and "image" not in found.streams:
        return False
    return "attention" in wf.methods()[method].needs


def _is_own_value(case: Case, found: wf.Attribution, output: Any) -> bool:
    """Whether the explained value stands in the model's own output."""
    again = plain_output(case.model, case.inputs)
    if not all(map(torch.equal, tensors_of(output), tensors_of(again))):
        return True  # UnivNet draws noise: it has no value of its own
    if case.target is not None:
        return torch.allclose(found.output, case.target(output), rtol=OWN, atol=OWN)
    if found.target.ndim != 1 or len(found.streams) > 1:
        return True
    rows = [t for t in tensors_of(output) if t.ndim and t.shape[0] == len(found.output)]
    for i, value in enumerate(found.output):
        if not any(((row[i] - value).abs() <= OWN * (1 + value.abs())).any() for row in rows):
            return False
    return True


def _lost(found: wf.Attribution) -> float:
    """The share of the explained value that scores and sinks do not have."""
    value = found.output.double()
    total, mass = torch.zeros_like(value), torch.zeros_like(value)
    for stream in found.streams.values():
        total = total + stream.scores.double().sum(1)
        mass = mass + stream.scores.double().abs().sum(1)
    for sink in found.sinks.values():
        total = total + sink.double()
    scale = value.abs().maximum(1e-3 * mass).clamp(min=1e-12)
    return float(((total - value).abs() / scale).max())


def _distance_to_single(case: Case, method: str, found: wf.Attribution) -> str:
    """How far the second sample alone is from the batch, in words; empty if it is equal."""
    alone, error, _ = attempt(case.model, one_sample(case.inputs, 1, 2), method, case.target)
    if alone is None:
        return f"the second sample alone fails: {str(error)[:80]}"
    lrp = "relevance" in wf.methods()[method].needs
    for name, stream in found.streams.items():
        single = alone.streams[name]
        theirs = single.scores[0][single.mask[0]]
        ours = stream.scores[1][stream.mask[1]]
        if len(ours) != len(theirs):
            return f"'{name}' has {len(ours)} scores in a batch and {len(theirs)} alone"
        largest = float(theirs.abs().max()) + 1e-30
        far = float((ours - theirs).abs().max()) / largest
        if far > (EQUAL_LRP if lrp else EQUAL):
            return f"'{name}' alone differs from the batch by {far:.1e}"
    return ""


def _picked(case: Case, found: wf.Attribution) -> by_hand.Pick | None:
    """The explained value as a function of the output, if it can be told."""
    if case.target is not None:
        return case.target
    if len(found.streams) > 1 or found.target.ndim != 1:
        return None
    values = found.output

    def pick(output: Any) -> Tensor:
        for scores in tensors_of(output):
            if scores.ndim not in (2, 3) or scores.shape[0] != len(values):
                continue
            flat = scores.reshape(len(values), -1)
            places = (flat - values.unsqueeze(1)).abs().argmin(1)
            picked = flat[torch.arange(len(values)), places]
            if torch.allclose(picked, values, rtol=1e-6, atol=1e-8):
                return picked
        raise ValueError("the explained value is not in the output")

    return pick


def _differs_from_autograd(case: Case, found: wf.Attribution) -> str:
    """How gradient x input differs from plain autograd; empty if it does not or cannot be told."""
    pick = _picked(case, found)
    if pick is None or len(found.streams) != 1:
        return ""
    try:
        candidates = by_hand.gradients_x_input(case.model, case.inputs, pick)
    except (ValueError, RuntimeError):
        return ""
    stream = found.streams[found.main]
    config: Any = case.model.config
    limit = MISPLACED_NORMS.get(config.model_type, MISPLACED)
    fault = _differs_everywhere(stream, candidates, limit)
    if fault and stream.grid is not None and len(candidates) > 0:
        ordered = by_hand.in_raster_order(case.model, case.inputs, pick, stream.grid)
        return _differs_everywhere(stream, ordered, limit) if ordered else fault
    return fault


def _differs_from_walk(case: Case, method: str, found: wf.Attribution) -> str:
    """Whether the scores differ from a walk over the model's own maps; empty if it has none."""
    pick = _picked(case, found)
    if method not in by_hand.WALKS or pick is None or len(found.streams) != 1:
        return ""
    try:
        layers = by_hand.attention_maps(case.model, case.inputs, pick)
    except (ValueError, RuntimeError):
        return ""
    if layers is None:
        return ""
    stream = found.streams[found.main]
    relevance = by_hand.WALKS[method](layers)
    for i in range(len(stream.scores)):
        if not by_hand.is_a_row(stream.scores[i], relevance[i], stream.mask[i], 1e-5):
            return f"differs from the walk over the model's own {len(layers)} maps"
    return ""


def _differs_everywhere(stream: Any, candidates: list[Tensor], limit: float) -> str:
    """Whether the scores are those at none of the places before the first attention."""
    if not candidates:
        return ""
    best = float("inf")
    for expected in candidates:
        count = stream.scores.shape[1]
        if expected.ndim == 3:
            if expected[0].numel() != count:
                continue
            expected = expected.flatten(1)
        if expected.shape[0] != len(stream.scores) or expected.shape[1] < count:
            continue
        for kept in (expected[:, -count:], expected[:, :count]):
            kept = kept * stream.mask
            far = (kept - stream.scores).abs().max() / kept.abs().max().clamp(min=1e-30)
            best = min(best, float(far))
    if best == float("inf") or best <= limit:
        return ""
    return f"differs from gradient x input by plain autograd by {best:.1e}"
