"""Inputs to batches of similar length, batches to results: one model on a series of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from whyformer.attribution import Attribution
from whyformer.batching.budget import CPU, budget_of
from whyformer.errors import WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.inputs.sizes import ALONE, Size, input_sizes
from whyformer.models.families import family_of
from whyformer.models.load import Loaded
from whyformer.models.processors import tokenizer_of
from whyformer.models.signature import stream_of

BATCHES = 16  # in a window of texts
SHOWN = 40  # characters of an input in an error


@dataclass(frozen=True)
class Entry:
    """One input of the series."""

    index: int
    inputs: Any
    target: Any
    id: str | None = None  # of a dataset's sample

    def __str__(self) -> str:
        """Its position or its name, and how it begins, for messages."""
        begins = self.inputs if isinstance(self.inputs, str) else repr(self.inputs)
        cut = begins[:SHOWN] + ("..." if len(begins) > SHOWN else "")
        name = self.index if self.id is None else repr(self.id)
        return f"input {name} ({cut!r})"


@dataclass(frozen=True)
class SeriesBatch:
    """Inputs that run together, prepared; or the one that cannot be, and why."""

    entries: tuple[Entry, ...]
    size: Size
    prepared: Batch | None = None
    error: WhyformerError | None = None


@dataclass(frozen=True)
class Steps:
    """What a series asks of the pipeline."""

    load: Callable[[Any], Loaded]  # the model that fits an input
    prepare: Callable[[Any, Loaded], Batch]
    explain: Callable[..., Attribution]


def window_of(batch_size: int | None) -> int:
    """How many texts are read ahead and sorted; windows of other inputs divide it."""
    return BATCHES * (batch_size or CPU.samples)


class Run:
    """One model on a series: inputs to batches, batches to results."""

    def __init__(self, steps: Steps, loaded: Loaded, batch_size: int | None) -> None:
        self.steps = steps
        self.loaded = loaded
        self.batch_size = batch_size
        module: nn.Module = getattr(loaded.module, "_orig_mod", loaded.module)
        self.budget = budget_of(module)
        self.stream = stream_of(module, family_of(module))
        self.tokenizer = tokenizer_of(loaded.processor, module)

    def window(self, first: Entry, sort: bool) -> int:
        """How many inputs are read at a time; images cannot be sorted and are large to hold."""
        size = input_sizes([first.inputs], None, self.stream)[0]
        if not size.is_text or not sort or self.batch_size == 1:
            return self._most(size)
        return window_of(self.batch_size)

    def _most(self, size: Size) -> int:
        if size.kind == ALONE:
            return 1
        return self.batch_size or (self.budget.samples if size.is_text else self.budget.images)

    def batches(self, entries: Sequence[Entry]) -> list[SeriesBatch]:
        """The inputs as prepared batches, the longest first; what cannot be read, by itself."""
        known = input_sizes([entry.inputs for entry in entries], self.tokenizer, self.stream)
        order = sorted(range(len(entries)), key=lambda i: (known[i].kind, -known[i].tokens))
        groups: list[list[int]] = []
        for i in order:
            if not groups or not self._fits(known[groups[-1][0]], known[i], len(groups[-1])):
                groups.append([])
            groups[-1].append(i)
        return [
            batch
            for group in groups
            for batch in self._prepared([entries[i] for i in group], known[group[0]])
        ]

    def _fits(self, longest: Size, size: Size, count: int) -> bool:
        """Whether one more goes into a batch of `count` that begins with the longest."""
        if longest.kind != size.kind or count >= self._most(size):
            return False
        return self.batch_size is not None or (count + 1) * longest.tokens <= self.budget.tokens

    def _prepared(self, entries: Sequence[Entry], size: Size) -> Iterator[SeriesBatch]:
        inputs: Any = [entry.inputs for entry in entries]
        try:
            prepared = self.steps.prepare(inputs[0] if size.kind == ALONE else inputs, self.loaded)
            yield SeriesBatch(tuple(entries), size, prepared)
        except WhyformerError as error:
            if len(entries) == 1:
                yield SeriesBatch(tuple(entries), size, error=error)
                return
            # One of them cannot be read, or they cannot be padded together: each by itself.
            for entry in entries:
                yield from self._prepared([entry], size)

    def results(
        self, batch: SeriesBatch, targets: Callable[[Sequence[Entry]], Any]
    ) -> Iterator[tuple[Entry, Attribution | WhyformerError]]:
        """Each input of a batch with its attribution, or with why there is none."""
        entries = batch.entries
        if batch.error is not None:
            yield entries[0], batch.error
            return
        try:
            found = self.steps.explain(
                batch.prepared,
                self.loaded.module,
                processor=self.loaded.processor,
                target=targets(entries),
            )
        except WhyformerError as error:
            if len(entries) == 1:
                yield entries[0], error
                return
            for entry in entries:
                for alone in self._prepared([entry], batch.size):
                    yield from self.results(alone, targets)
            return
        yield from (
            [(entries[0], found)] if batch.size.kind == ALONE else zip(entries, found, strict=True)
        )
