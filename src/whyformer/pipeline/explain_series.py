"""Explain any number of inputs: read ahead, batched by length, one `Attribution` each in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from whyformer.attribution import Attribution
from whyformer.batching.series import (
    InOrder,
    SeriesBatch,
    SeriesItem,
    SeriesPlanner,
    SeriesReader,
    read_batches,
)
from whyformer.errors import SkippedWarning, WhyformerError, warn_caller
from whyformer.models.load import Loaded, load_model
from whyformer.pipeline.answers import Writing
from whyformer.pipeline.explain_inputs import default_kind, explain_answers, judge_inputs
from whyformer.pipeline.found_streams import with_found_streams
from whyformer.pipeline.request import Request


@dataclass(frozen=True)
class Series:
    """The inputs of a series, and how they are read."""

    inputs: Any
    target: Any
    model: nn.Module | str | Loaded | None
    processor: Any
    place: Mapping[str, Any]
    truncation: bool
    tokens: str | None
    batch_size: int | None


def explain_series(
    request: Request, writing: Writing, series: Series, on_error: str
) -> Iterator[Attribution]:
    """One attribution per input, in order, each as soon as all earlier ones are done."""
    reader = SeriesReader(series.inputs, series.target)
    first = reader.read(1)
    if first:
        kind = default_kind(series.model, first[0].inputs)
        loaded = load_model(series.model, series.processor, kind, **series.place)
        loaded = with_found_streams(loaded, first[0].inputs)
        planner = SeriesPlanner(loaded, series.batch_size, series.truncation, series.tokens)
        results = InOrder()
        for batch in read_batches(reader, planner, first, sort=not request.keep):
            for item, result in _explain_items(request, writing, planner, reader, batch):
                if isinstance(result, Attribution):
                    result = judge_inputs(result, item.inputs, loaded, series.model is None)
                results.add(item.index, _with_place(item, result))
            for result in results.ready():
                if isinstance(result, Attribution):
                    yield result
                elif on_error == "raise":
                    raise result
                else:
                    warn_caller(f"left out {result}", SkippedWarning)
    if reader.failure is not None:
        raise reader.failure


def _explain_items(
    request: Request,
    writing: Writing,
    planner: SeriesPlanner,
    reader: SeriesReader,
    batch: SeriesBatch,
) -> Iterator[tuple[SeriesItem, Attribution | WhyformerError]]:
    """Each input of a batch with its attribution, or with its error."""
    if batch.batch is None:
        assert batch.error is not None
        yield batch.items[0], batch.error
        return
    try:
        target = reader.targets(batch.items)
        found = explain_answers(request, writing, planner.loaded, batch.batch, target)
    except WhyformerError as error:
        if len(batch.items) == 1:
            yield batch.items[0], error
            return
        for one in planner.one_by_one(batch):
            yield from _explain_items(request, writing, planner, reader, one)
        return
    yield from [(batch.items[0], found)] if batch.is_alone else zip(batch.items, found, strict=True)


def _with_place(
    item: SeriesItem, result: Attribution | WhyformerError
) -> Attribution | WhyformerError:
    """The result with its position in the series, and its id if it has one."""
    if isinstance(result, WhyformerError):
        return result.with_prefix(str(item))
    place: dict[str, Any] = {"index": item.index}
    if item.id is not None:
        place["id"] = item.id
    return replace(result, provenance={**result.provenance, **place})
