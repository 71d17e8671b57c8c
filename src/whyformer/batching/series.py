"""Inputs in any number, explained one batch after another: an attribution each, in their order.

A window of inputs is read ahead and sorted by length, so that a batch holds little padding; while
the model runs on one window, a thread prepares the next. Nothing else is held, however long the
series is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from operator import length_hint
from typing import Any

from whyformer.attribution import Attribution
from whyformer.batching.batches import Entry, Run, SeriesBatch, Steps
from whyformer.datasets import Dataset, Sample, open_dataset
from whyformer.datasets.huggingface import is_huggingface
from whyformer.errors import OptionError, SkippedWarning, TargetError, WhyformerError
from whyformer.models.load import Loaded


def is_series(inputs: Any) -> bool:
    """Whether these are inputs in any number: an iterator or a dataset, not a list."""
    return isinstance(inputs, Iterator | Dataset) or is_huggingface(inputs)


def check_settings(batch_size: Any, on_error: Any) -> None:
    """Nothing; raises where a setting of a series has a value that it cannot have."""
    whole = isinstance(batch_size, int) and not isinstance(batch_size, bool)
    if batch_size is not None and not (whole and batch_size >= 1):
        raise OptionError(f"batch_size is {batch_size!r}: give a whole number from 1, or None")
    if on_error not in ("raise", "skip"):
        raise OptionError(f"on_error is {on_error!r}: give 'raise' or 'skip'")


def refuse_settings(batch_size: Any, on_error: Any, progress: Any) -> None:
    """Nothing; raises where a setting of a series comes with a single batch."""
    given = {"batch_size": batch_size, "on_error": on_error != "raise", "progress": progress}
    for name in (name for name, value in given.items() if value):
        raise OptionError(
            f"{name}= is for inputs in any number, and a single batch was given; pass an iterator,"
            " as in explain(iter(texts), ...), and attributions come one by one"
        )


class Series:
    """An iterable of inputs on its way through the pipeline."""

    def __init__(
        self,
        inputs: Any,
        target: Any,
        steps: Steps,
        *,
        batch_size: int | None = None,
        on_error: str = "raise",
        sort: bool = True,
    ) -> None:
        """Without `sort` a window is one batch: less is held where attributions are large."""
        source = open_dataset(inputs) if is_huggingface(inputs) else inputs
        self.given = inputs
        self.per_sample = _is_per_sample(target)
        self.target = target
        self.steps = steps
        self.batch_size = batch_size
        self.on_error = on_error
        self.sort = sort
        self.entries = self._entries(source)
        self.failure: Exception | None = None  # what the user's iterator raised

    @property
    def count(self) -> int | None:
        """How many inputs there are, where they can say so without being read."""
        return length_hint(self.given) or None

    def attributions(self) -> Iterator[Attribution]:
        """One attribution for each input, in order, as soon as those before it are there."""
        first = self._read(1)
        if first:
            loaded = self.steps.load(first[0].inputs)
            yield from self._explained(first, Run(self.steps, loaded, self.batch_size))
        if self.failure is not None:
            raise self.failure

    def _explained(self, first: list[Entry], run: Run) -> Iterator[Attribution]:
        size = run.window(first[0], self.sort)
        waiting: dict[int, Attribution | WhyformerError] = {}
        following = 0
        with ThreadPoolExecutor(1, "whyformer-prepare") as worker:

            def ahead(entries: list[Entry]) -> Future[list[SeriesBatch]] | None:
                return worker.submit(run.batches, entries) if entries else None

            # The user's iterator is read here and not in the thread: it may belong to this one.
            ready = ahead(first + self._read(size - 1))
            while ready is not None:
                batches = ready.result()
                ready = ahead(self._read(size))
                for batch in batches:
                    for entry, result in run.results(batch, self._targets):
                        waiting[entry.index] = self._named(entry, result, run.loaded)
                    while following in waiting:
                        result = waiting.pop(following)
                        following += 1
                        if isinstance(result, Attribution):
                            yield result
                        elif self.on_error == "raise":
                            raise result
                        else:
                            warnings.warn(f"left out {result}", SkippedWarning, stacklevel=3)

    def _read(self, count: int) -> list[Entry]:
        """The next inputs; fewer where the iterator ends or fails."""
        found: list[Entry] = []
        try:
            found.extend(islice(self.entries, count))  # keeps those before a failure
        except Exception as error:
            self.failure = error
        return found

    def _entries(self, source: Iterable[Any]) -> Iterator[Entry]:
        targets = iter(self.target) if self.per_sample else None
        count = 0
        for index, item in enumerate(source):
            count += 1
            inputs, name = (item.inputs, item.id) if isinstance(item, Sample) else (item, None)
            wanted = None
            if targets is not None:
                try:
                    wanted = next(targets)
                except StopIteration:
                    raise TargetError(
                        f"there are {index} targets and more inputs; pass one target for all, or"
                        " as many as there are inputs"
                    ) from None
            yield Entry(index, inputs, wanted, name)
        if self.per_sample and isinstance(self.target, Sized) and len(self.target) > count:
            raise TargetError(
                f"there are {len(self.target)} targets for {count} inputs; pass one for each"
            )

    def _targets(self, entries: Sequence[Entry]) -> Any:
        return [entry.target for entry in entries] if self.per_sample else self.target

    def _named(
        self, entry: Entry, result: Attribution | WhyformerError, loaded: Loaded
    ) -> Attribution | WhyformerError:
        """The result with its place in the series."""
        if isinstance(result, WhyformerError):
            told = type(result)(f"{entry}: {result}")
            told.__cause__ = result
            return told
        place: dict[str, Any] = {"model": loaded.name, "index": entry.index}
        if entry.id is not None:
            place["id"] = entry.id
        return replace(result, provenance={**result.provenance, **place})


def _is_per_sample(target: Any) -> bool:
    """Whether a target is one for each input: an iterator, a list, or numbers in a row."""
    return isinstance(target, Iterator | list | tuple) or getattr(target, "ndim", 0) == 1


def shown(attributions: Iterator[Attribution], count: int | None) -> Iterator[Attribution]:
    """The same attributions, behind a bar on stderr that counts them and tells the time left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("explaining"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield from progress.track(attributions, total=count)
