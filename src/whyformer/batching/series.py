"""Read a series of inputs of any length, and turn it into prepared batches.

A window of inputs is read and sorted by length, so that a batch holds little padding. While the
caller works on one window, a thread prepares the next. No other inputs are held in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from operator import length_hint
from typing import Any

from whyformer.batching.budget import CPU, pass_cost, token_budget
from whyformer.batching.plan import plan_batches
from whyformer.datasets import Dataset, Sample, open_dataset
from whyformer.datasets.huggingface import is_huggingface
from whyformer.errors import OptionError, TargetError, WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.inputs.containers import plain_sample
from whyformer.inputs.prepare import prepare
from whyformer.inputs.sizes import ALONE, Size, input_sizes
from whyformer.models.load import Loaded
from whyformer.models.processors import tokenizer_of
from whyformer.models.signature import stream_of

WINDOW_BATCHES = 16  # batches in a window of texts
SHOWN_CHARACTERS = 40  # of an input in an error


@dataclass(frozen=True)
class SeriesItem:
    """One input of the series, and its target if each input has its own."""

    index: int
    inputs: Any
    target: Any
    id: str | None = None  # of a dataset's sample

    def __str__(self) -> str:
        """Return its position or id and its first characters, for messages."""
        text = self.inputs if isinstance(self.inputs, str) else repr(self.inputs)
        cut = text[:SHOWN_CHARACTERS] + ("..." if len(text) > SHOWN_CHARACTERS else "")
        name = self.index if self.id is None else repr(self.id)
        return f"input {name} ({cut!r})"


@dataclass(frozen=True)
class SeriesBatch:
    """Inputs that run together, prepared; or one input that cannot be prepared, and why."""

    items: tuple[SeriesItem, ...]
    size: Size
    batch: Batch | None = None
    error: WhyformerError | None = None

    @property
    def is_alone(self) -> bool:
        """Whether this is one input that is a batch by itself (a tensor or a mapping)."""
        return self.size.kind == ALONE


def is_series(inputs: Any) -> bool:
    """Return whether the inputs are an iterator or a dataset, rather than one batch."""
    streamed = type(inputs).__name__ == "IterableColumn"  # of a `datasets.IterableDataset`
    return streamed or isinstance(inputs, Iterator | Dataset) or is_huggingface(inputs)


def series_length(inputs: Any) -> int | None:
    """Return how many inputs there are, if that is known without reading them."""
    return length_hint(inputs) or None


def window_size(batch_size: int | None) -> int:
    """Return how many texts are read ahead and sorted."""
    return WINDOW_BATCHES * (batch_size or CPU.samples)


def check_series_settings(batch_size: Any, on_error: Any) -> None:
    """Raise OptionError if a setting for iterators has a bad value."""
    is_int = isinstance(batch_size, int) and not isinstance(batch_size, bool)
    if batch_size is not None and not (is_int and batch_size >= 1):
        raise OptionError(
            f"batch_size={batch_size!r} is not a positive integer",
            argument="batch_size",
            remedy="Pass an integer of at least 1, or None to choose by length",
        )
    if on_error not in ("raise", "skip"):
        raise OptionError(
            f"on_error={on_error!r} is unknown", argument="on_error", remedy="Use 'raise' or 'skip'"
        )


def refuse_series_settings(batch_size: Any, on_error: Any) -> None:
    """Raise OptionError if a setting for iterators comes with a single batch."""
    settings = {"batch_size": batch_size, "on_error": on_error != "raise"}
    for name in (name for name, value in settings.items() if value):
        raise OptionError(
            f"{name}= needs an iterator, and one batch was given",
            argument=name,
            remedy=f"Pass an iterator: explain(iter(texts), {name}=...)",
        )


@dataclass
class SeriesReader:
    """Reads the user's iterator in pieces.

    An error of the iterator is kept until all inputs before it are explained.
    """

    inputs: Any
    target: Any
    failure: Exception | None = None
    _items: Iterator[SeriesItem] = field(init=False)

    def __post_init__(self) -> None:
        source = open_dataset(self.inputs) if is_huggingface(self.inputs) else self.inputs
        self._items = _series_items(source, self.target)

    def read(self, count: int) -> list[SeriesItem]:
        """Return the next inputs; fewer if the iterator ends or fails."""
        items: list[SeriesItem] = []
        try:
            items.extend(islice(self._items, count))  # keeps those before a failure
        except Exception as error:
            self.failure = error
        return items

    def targets(self, items: Sequence[SeriesItem]) -> Any:
        """Return the target of a batch: a list with one per input, or one target for all."""
        per_sample = is_target_per_sample(self.target)
        return [item.target for item in items] if per_sample else self.target


@dataclass(frozen=True)
class SeriesPlanner:
    """Turns inputs into prepared batches for one model."""

    loaded: Loaded
    batch_size: int | None = None
    truncation: bool = False
    carrier: str | None = None  # the argument that carries tokens, if the user named it

    @property
    def _stream(self) -> str:
        return stream_of(self.loaded.module, self.loaded.family)

    def window(self, first: SeriesItem, sort: bool) -> int:
        """Return how many inputs to read at a time; one batch if they are images or not sorted."""
        size = input_sizes([first.inputs], None, self._stream)[0]
        if not size.is_text or not sort or self.batch_size == 1:
            return self._most_samples(size)
        return window_size(self.batch_size)

    def batches(self, items: Sequence[SeriesItem]) -> list[SeriesBatch]:
        """Return the inputs as prepared batches; an input that cannot be read is alone."""
        module = self.loaded.module
        tokenizer = tokenizer_of(self.loaded.processor, module)
        known = input_sizes([item.inputs for item in items], tokenizer, self._stream)
        batches: list[SeriesBatch] = []
        for kind in dict.fromkeys(size.kind for size in known):
            own = [i for i, size in enumerate(known) if size.kind == kind]
            # A batch size that the user chose is filled; otherwise padding and passes are weighed.
            limit, cost = token_budget(module).tokens, pass_cost(module)
            if self.batch_size is not None:
                limit = cost = sum(known[i].tokens for i in own) * len(own)
            groups = plan_batches(
                [known[i].tokens for i in own],
                tokens=limit,
                samples=self._most_samples(known[own[0]]),
                pass_cost=cost,
            )
            for group in groups:
                chosen = [own[i] for i in group]
                batches += self._prepare([items[i] for i in chosen], known[chosen[0]])
        return batches

    def one_by_one(self, batch: SeriesBatch) -> list[SeriesBatch]:
        """Return the inputs of a batch as batches of one."""
        return [one for item in batch.items for one in self._prepare([item], batch.size)]

    def _most_samples(self, size: Size) -> int:
        if size.kind == ALONE:
            return 1
        budget = token_budget(self.loaded.module)
        return self.batch_size or (budget.samples if size.is_text else budget.images)

    def _prepare(self, items: Sequence[SeriesItem], size: Size) -> list[SeriesBatch]:
        """One prepared batch; batches of one if they cannot be prepared together."""
        inputs: Any = [item.inputs for item in items]
        try:
            batch = prepare(
                inputs[0] if size.kind == ALONE else inputs,
                self.loaded.module,
                self.loaded.processor,
                self.loaded.family,
                self.truncation,
                carrier=self.carrier,
            )
        except WhyformerError as error:
            if len(items) == 1:
                return [SeriesBatch(tuple(items), size, error=error)]
            return [one for item in items for one in self._prepare([item], size)]
        return [SeriesBatch(tuple(items), size, batch)]


def read_batches(
    reader: SeriesReader, planner: SeriesPlanner, first: list[SeriesItem], sort: bool
) -> Iterator[SeriesBatch]:
    """Yield prepared batches; a thread prepares the next window meanwhile.

    Without `sort` a window is one batch, to save memory if attributions are large.
    """
    count = planner.window(first[0], sort)
    with ThreadPoolExecutor(1, "whyformer-prepare") as worker:

        def submit(items: list[SeriesItem]) -> Future[list[SeriesBatch]] | None:
            return worker.submit(planner.batches, items) if items else None

        # The user's iterator is read here, not in the worker: it may be bound to this thread.
        ready = submit(first + reader.read(count - 1))
        while ready is not None:
            batches = ready.result()
            ready = submit(reader.read(count))
            yield from batches


@dataclass
class InOrder:
    """Results that arrive in any order and leave in the order of the series."""

    _waiting: dict[int, Any] = field(default_factory=dict)
    _next: int = 0

    def add(self, index: int, result: Any) -> None:
        """Keep a result until all earlier ones have been added."""
        self._waiting[index] = result

    def ready(self) -> Iterator[Any]:
        """Yield the results that are next in order."""
        while self._next in self._waiting:
            self._next += 1
            yield self._waiting.pop(self._next - 1)


def is_target_per_sample(target: Any) -> bool:
    """Return whether a target has one entry per input: an iterator, a list or a 1-D tensor."""
    return isinstance(target, Iterator | list | tuple) or getattr(target, "ndim", 0) == 1


def _series_items(source: Iterable[Any], target: Any) -> Iterator[SeriesItem]:
    """The inputs with their targets; raise TargetError if there are more or fewer targets."""
    per_sample = is_target_per_sample(target)
    targets = iter(target) if per_sample else None
    count = 0
    for index, item in enumerate(source):
        count += 1
        inputs, name = (item.inputs, item.id) if isinstance(item, Sample) else (item, None)
        own = None
        if targets is not None:
            try:
                own = next(targets)
            except StopIteration:
                raise TargetError(
                    f"there are {index} targets and more inputs",
                    argument="target",
                    remedy="Pass one target for all, or one for each input",
                ) from None
        yield SeriesItem(index, plain_sample(inputs), own, name)
    if per_sample and isinstance(target, Sized) and len(target) > count:
        raise TargetError(
            f"there are {len(target)} targets for {count} inputs",
            argument="target",
            remedy="Pass one target for all, or one for each input",
        )
