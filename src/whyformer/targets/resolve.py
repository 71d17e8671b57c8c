"""What is to be explained, found in the model's raw output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import ModelError, TargetError, WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.inputs.padding_layout import restore_output
from whyformer.models.weights import check_weights
from whyformer.targets.heads import head_of
from whyformer.targets.selection import Selection, Selector, is_callable
from whyformer.targets.specs import Contrast, Query, Span, Token


def contrast(a: Any, b: Any) -> Contrast:
    """A target: why `a` rather than `b`, each a class, a label or another target."""
    return Contrast(a, b)


def query(index: int, label: int | str | None = None) -> Query:
    """A target: the score of `label` (by default the best) at a detector's object query."""
    return Query(index, label)


def token(position: int, token: int | str | None = None) -> Token:
    """A target: the score of `token` at the token at `position`, by default the best one there.

    `position` is that of the token that speaks: in a language model its score is about the token
    that comes next, in a masked one and in token classification about this token itself.
    Positions count every token of the sample, special ones and padding included, from 0.
    """
    return Token(position, token)


def span(start: int, end: int) -> Span:
    """A target: the answer that begins at token `start` and ends with token `end`."""
    return Span(start, end)


@dataclass(frozen=True)
class Goal:
    """The value to be explained per sample, still connected to the graph."""

    value: Tensor  # (batch,)
    index: Tensor  # (batch,) the class or token id, a span's start; -1 for a callable
    labels: tuple[str, ...]  # in words
    target: Any  # means the same entries in any other output, whatever it predicts


def resolve(target: Any, output: Any, module: nn.Module, prepared: Batch) -> Goal:
    """What `target` means in this output; None is whatever the model predicted.

    `output` is the raw thing that forward returned.
    """
    if is_callable(target):
        goal = _call_target(target, output, module, prepared)
    else:
        spoken = prepared.of("generated") or prepared  # the stream that positions count
        head = head_of(output, module, spoken)
        asked = Selector(head, module, spoken)
        picks = [
            asked.select(wanted, sample)
            for sample, wanted in enumerate(_target_per_sample(target, prepared))
        ]
        goal = Goal(
            value=_sum_selected(head.scores, picks),
            index=torch.tensor([pick.index for pick in picks], device=head.scores.device),
            labels=tuple(pick.label for pick in picks),
            target=picks,
        )
    if not bool(goal.value.detach().isfinite().all()):
        check_weights(module, again=True)
        sample = int((~goal.value.detach().isfinite()).nonzero()[0])
        raise ModelError(
            f"the value to explain, {goal.labels[sample]!r} of sample {sample}, is"
            f" {goal.value.detach()[sample].item()}: {type(module).__name__} overflowed; run it in"
            " a wider dtype, or pass another target"
        )
    return goal


def _target_per_sample(target: Any, prepared: Batch) -> list[Any]:
    """One target per sample, from one for all or a list of them."""
    if isinstance(target, Tensor):
        if target.is_floating_point() or target.dtype == torch.bool or target.ndim > 1:
            raise TargetError(
                f"the target is a tensor of {target.dtype} with shape {tuple(target.shape)}; pass"
                f" integers of shape ({prepared.size},)"
            )
        target = target.tolist()
    elif hasattr(target, "tolist") and not isinstance(target, str):
        target = target.tolist()  # numpy
    if not isinstance(target, list | tuple):
        return [target] * prepared.size
    if len(target) != prepared.size:
        raise TargetError(
            f"{len(target)} targets were given for {prepared.size} samples; pass one target, or"
            " one per sample"
        )
    return list(target)


def _call_target(target: Any, output: Any, module: nn.Module, prepared: Batch) -> Goal:
    """The value that a user's callable computes from the output, one per sample."""
    try:
        for stream in prepared:
            if stream.layout is not None:
                output = restore_output(output, stream.layout)
        value = target(output)
    except WhyformerError:
        raise
    except Exception as error:
        raise TargetError(
            f"the target callable failed on the output of {type(module).__name__}, a"
            f" {type(output).__name__}: {type(error).__name__}: {error}"
        ) from error
    expected = (prepared.size,)
    if not isinstance(value, Tensor) or tuple(value.shape) != expected:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise TargetError(
            f"the target callable returned {got}; expected a tensor of shape {expected}, one value"
            " per sample"
        )
    if not value.is_floating_point():
        raise TargetError(
            f"the target callable returned {value.dtype}; expected floating numbers, which can be"
            " traced back to the inputs"
        )
    name = getattr(target, "__name__", type(target).__name__)
    label = "callable" if name == "<lambda>" else name
    return Goal(
        value,
        torch.full(expected, -1, dtype=torch.long, device=value.device),
        (label,) * prepared.size,
        target,
    )


def _sum_selected(scores: Tensor, picks: list[Selection]) -> Tensor:
    """The signed sum of each sample's picked entries, (batch,)."""
    samples = torch.arange(len(picks), device=scores.device)
    # The first term of every sample is added; one with fewer terms than another adds nothing more.
    total = scores[(samples, *_places([pick.terms[0] for pick in picks], scores))]
    for rank in range(1, max(len(pick.terms) for pick in picks)):
        terms = [p.terms[rank] if rank < len(p.terms) else (0, p.terms[0][1]) for p in picks]
        entries = scores[(samples, *_places(terms, scores))]
        signs = [sign for sign, _ in terms]
        if set(signs) == {-1}:
            total = total - entries
        elif set(signs) == {1}:
            total = total + entries
        else:
            total = total + entries * torch.tensor(signs, dtype=scores.dtype, device=scores.device)
    return total


def _places(terms: list[tuple[int, tuple[int, ...]]], scores: Tensor) -> tuple[Tensor, ...]:
    """Where the terms are, one index tensor per axis behind the batch's."""
    return torch.tensor([place for _, place in terms], device=scores.device).unbind(1)
