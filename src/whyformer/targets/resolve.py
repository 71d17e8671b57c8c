"""Resolve a target in the model's raw output: the value to explain, per sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import ModelError, TargetError, WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.inputs.padding_layout import restore_output
from whyformer.models.weights import check_weights
from whyformer.targets.heads import head_of
from whyformer.targets.probability import target_probability, token_probabilities
from whyformer.targets.selection import (
    Places,
    Selection,
    Selector,
    Terms,
    is_callable,
    term_places,
)
from whyformer.targets.specs import Contrast, Query, Span, Token


def contrast(a: Any, b: Any) -> Contrast:
    """Return a target: why `a` rather than `b`.

    Args:
        a: A class, a label, a token, a span or a query.
        b: Another one, whose score is subtracted.

    Example:
        >>> contrast("positive", "negative")
        Contrast(chosen='positive', other='negative')
    """
    return Contrast(a, b)


def query(index: int, label: int | str | None = None) -> Query:
    """Return a target: one object query of a detector.

    Args:
        index: The query, from 0.
        label: The class to explain, by default the one with the highest score.

    Example:
        >>> query(3, "cat")
        Query(index=3, label='cat')
    """
    return Query(index, label)


def token(
    position: int | str, token: int | str | None = None, *, occurrence: int | None = None
) -> Token:
    """Return a target: the model's output at one token.

    In a language model the score at a position is about the next token; in a masked language
    model and in token classification it is about the token itself.

    Args:
        position: Counts all tokens of the sample from 0, special ones and padding included; -1 is
            the sample's last token. Or a text in the sample, such as "Berlin": its first token;
            in a language model the text itself, as it is predicted from what comes before it.
        token: The token or class to explain, by default the one with the highest score; if the
            position is a text in a language model, by default that text.
        occurrence: Which one, from 0, if the text occurs several times; -1 is the last.

    Example:
        >>> token(4, "film")
        Token(position=4, token='film')
        >>> token("Berlin")
        Token(position='Berlin', token=None)
    """
    return Token(position, token, occurrence)


def span(start: int | str, end: int | None = None, *, occurrence: int | None = None) -> Span:
    """Return a target: an answer in the text.

    Args:
        start: Position of its first token, or the text of the answer, such as "Berlin".
        end: Position of its last token. Left out if `start` is text.
        occurrence: Which one, from 0, if the text occurs several times; -1 is the last.

    Raises:
        TargetError: A position comes without an end, or a text with one.

    Example:
        >>> span(2, 5)
        Span(start=2, end=5)
        >>> span("Berlin")
        Span(start='Berlin', end=None)
    """
    if isinstance(start, str) == (end is not None):
        raise TargetError(
            f"a span from {start!r} to {end!r}",
            argument="target",
            remedy="Pass wf.span(start, end) with two positions, or wf.span(text)",
        )
    return Span(start, end, occurrence)


@dataclass(frozen=True)
class Goal:
    """The value to explain per sample, still connected to the autograd graph."""

    value: Tensor  # (batch,)
    index: Tensor  # (batch,) the class or token id, a span's start; -1 for a callable
    labels: tuple[str, ...]  # as text, per sample
    target: Any  # selects the same entries in any other output, even if its prediction differs
    probabilities: Tensor | None = None  # (batch, terms) of selected tokens, if these are tokens
    probability: Tensor | None = None  # (batch,) of the target; NaN for a sample without one


def resolve(target: Any, output: Any, module: nn.Module, batch: Batch) -> Goal:
    """Return the value that the target means in this output.

    Args:
        target: The user's target; None for the predicted class.
        output: What forward returned.
        module: The model.
        batch: The inputs that gave this output.

    Raises:
        TargetError: The output has no such entry.
        ModelError: The value is not finite.
    """
    if is_callable(target):
        goal = _call_target(target, output, module, batch)
    else:
        stream = batch.of("generated") or batch  # positions count its tokens
        head = head_of(output, module, stream)
        selector = Selector(head, module, stream)
        targets = _target_per_sample(target, batch)
        selections = [selector.select(each, sample) for sample, each in enumerate(targets)]
        terms = _same_number(selections)
        _check_tokens(head.scores, terms)
        with torch._C.DisableTorchFunction():  # places are no operations of the model
            places = term_places(head.scores, terms)
            index = torch.tensor([one.index for one in selections], device=head.scores.device)
        goal = Goal(
            value=_sum_selected(head.scores, terms, places),
            index=index,
            labels=tuple(one.label for one in selections),
            target=selections,
            probabilities=token_probabilities(head, places),
            probability=target_probability(head, terms, places, module, stream),
        )
    with torch._C.DisableTorchFunction():
        values = goal.value.detach().tolist()
    if not all(map(math.isfinite, values)):
        check_weights(module, again=True)
        sample = int((~goal.value.detach().isfinite()).nonzero()[0])
        raise ModelError(
            f"the value to explain, {goal.labels[sample]!r} of sample {sample}, is"
            f" {goal.value.detach()[sample].item()}: {type(module).__name__} overflowed",
            argument="model",
            remedy="Run the model in a wider dtype, or pass another target",
        )
    return goal


def _target_per_sample(target: Any, batch: Batch) -> list[Any]:
    if isinstance(target, Tensor):
        if target.is_floating_point() or target.dtype == torch.bool or target.ndim > 1:
            raise TargetError(
                f"the target is a tensor of {target.dtype} with shape {tuple(target.shape)}",
                argument="target",
                remedy=f"Pass integers of shape ({batch.size},)",
            )
        target = target.tolist()
    elif hasattr(target, "tolist") and not isinstance(target, str):
        target = target.tolist()  # numpy
    if not isinstance(target, list | tuple):
        return [target] * batch.size
    if len(target) != batch.size:
        raise TargetError(
            f"{len(target)} targets were given for {batch.size} samples",
            argument="target",
            remedy="Pass one target, or one per sample",
        )
    return list(target)


def _call_target(target: Any, output: Any, module: nn.Module, batch: Batch) -> Goal:
    """The value that a user's callable computes from the output."""
    try:
        for stream in batch:
            if stream.layout is not None:
                output = restore_output(output, stream.layout)
        value = target(output)
    except WhyformerError:
        raise
    except Exception as error:
        raise TargetError(
            f"the target callable failed on the output of {type(module).__name__}, a"
            f" {type(output).__name__}: {type(error).__name__}: {error}",
            argument="target",
        ) from error
    expected = (batch.size,)
    if not isinstance(value, Tensor) or tuple(value.shape) != expected:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise TargetError(
            f"the target callable returned {got}; expected a tensor of shape {expected}, one value"
            " per sample",
            argument="target",
        )
    if not value.is_floating_point():
        raise TargetError(
            f"the target callable returned {value.dtype}; expected floating numbers, which can be"
            " traced back to the inputs",
            argument="target",
        )
    name = getattr(target, "__name__", type(target).__name__)
    label = "callable" if name == "<lambda>" else name
    return Goal(
        value,
        torch.full(expected, -1, dtype=torch.long, device=value.device),
        (label,) * batch.size,
        target,
    )


def _same_number(selections: list[Selection]) -> list[Terms]:
    """The terms of each sample; samples with fewer terms get more of sign 0."""
    most = max(len(one.terms) for one in selections)
    return [(*one.terms, *[(0, one.terms[0][1])] * (most - len(one.terms))) for one in selections]


def _check_tokens(scores: Tensor, terms: list[Terms]) -> None:
    """Raise TargetError if an entry lies beyond the scores."""
    unknown = [where[-1] for row in terms for _, where in row if where[-1] >= scores.shape[-1]]
    if unknown:
        raise TargetError(
            f"there is no token {unknown[0]}; the model has ids 0 to {scores.shape[-1] - 1}",
            argument="target",
        )


def _sum_selected(scores: Tensor, terms: list[Terms], places: Places) -> Tensor:
    """The signed sum of each sample's selected entries, (batch,)."""
    entries = scores[places]  # (batch, terms)
    signs = [[sign for sign, _ in row] for row in terms]
    if any(sign != 1 for row in signs for sign in row):
        entries = entries * torch.tensor(signs, dtype=scores.dtype, device=scores.device)
    return entries.sum(1)
