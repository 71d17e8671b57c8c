"""Explain one input with several methods or targets: loaded, prepared and written once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from whyformer.attribution import Attribution
from whyformer.errors import WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.inputs.containers import plain_inputs
from whyformer.models.load import Loaded, load_model
from whyformer.pipeline.answers import Writing, check_writing, with_answers
from whyformer.pipeline.chat_roles import with_roles
from whyformer.pipeline.explain_batch import explain_batch
from whyformer.pipeline.explain_inputs import (
    default_kind,
    explain_answers,
    judge_inputs,
    prepare_inputs,
)
from whyformer.pipeline.found_streams import with_found_streams
from whyformer.pipeline.request import make_request


@dataclass(frozen=True)
class Ask:
    """One method on one target, with its options and with settings of `make_request`."""

    method: str
    target: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The attribution for one `Ask`, or its error, and how long it took."""

    ask: Ask
    attribution: Attribution | None
    error: WhyformerError | None
    seconds: float


def explain_each(
    inputs: Any,
    model: nn.Module | str | Loaded | None,
    asks: Iterable[Ask],
    *,
    processor: Any = None,
    truncation: bool = False,
    tokens: str | None = None,
    on_error: str = "raise",
    max_new_tokens: int | None = None,
    **settings: Any,
) -> Iterator[Answer]:
    """Explain one input with several methods or targets, one after the other.

    The model is loaded and the input prepared once. A language model writes its answer once, for
    all asks without a target.

    Args:
        inputs: One batch of inputs, as in `explain`, or a prepared `Batch`. A language model
            writes no answer to a prepared batch: its next token is explained.
        model: As in `explain`.
        asks: The methods and targets.
        processor: As in `explain`.
        truncation: As in `explain`.
        tokens: As in `explain`.
        on_error: "raise" stops at the first error; "return" puts the error into the answer.
        max_new_tokens: As in `explain`.
        **settings: `keep`, `memory`, `blocks`, `batch_first`, `deciding`, `strict`,
            `check_precision`, `each` and `image_scale`, as in `explain`.

    Returns:
        An iterator of one `Answer` per ask.
    """
    inputs = plain_inputs(inputs)
    kind = default_kind(model, inputs)
    loaded = with_found_streams(load_model(model, processor, kind), inputs)
    batch, implied = inputs, None
    prepared = isinstance(inputs, Batch)
    if not prepared:
        batch, implied = prepare_inputs(inputs, loaded, truncation, tokens, kind)
    writing = Writing(max_new_tokens)
    check_writing(writing)
    written: tuple[Batch, Any] | None = None
    for ask in asks:
        start = time.perf_counter()
        attribution, error = None, None
        try:
            request = make_request(ask.method, **{**settings, **ask.options})
            if prepared:
                attribution = explain_batch(request, loaded, batch, ask.target)
            elif ask.target is not None:
                attribution = explain_answers(request, Writing(), loaded, batch, ask.target)
            else:
                written = written or with_answers(loaded, batch, implied, writing)
                attribution = with_roles(explain_batch(request, loaded, *written), *written)
            if not prepared:
                attribution = judge_inputs(attribution, inputs, loaded, model is None)
        except WhyformerError as failure:
            if on_error == "raise":
                raise
            error = failure
        yield Answer(ask, attribution, error, time.perf_counter() - start)
