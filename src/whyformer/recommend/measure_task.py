"""What a worker of a race does: it loads the model once, and measures batches by methods.

A unit is one batch and one method, so that the methods of a round run side by side. Which other
units a worker had before does not change a value.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from whyformer.attribution import Attribution
from whyformer.errors import WhyformerError
from whyformer.evaluation.batch_evaluation import BatchEvaluation
from whyformer.evaluation.plan import MethodSpec, Plan
from whyformer.evaluation.sample_batches import SampleBatch
from whyformer.evaluation.sent_model import SentModel
from whyformer.evaluation.units import EvaluatedModel, ResultRow
from whyformer.metrics.token_order import removable
from whyformer.recommend.standing import TARGET
from whyformer.workers.chunk import Work

REFERENCE = MethodSpec("random", "random", {"seed": 0})  # one forward pass shows the tokens


@dataclass(frozen=True)
class RaceUnit:
    """One batch of samples and one method; `batch` names the batch within the race."""

    batch: str
    samples: SampleBatch
    method: MethodSpec


@dataclass(frozen=True)
class MeasuredUnit:
    """What a worker returns.

    Args:
        samples: How many samples were measured.
        skipped: How many have fewer than two tokens.
        streams: The streams of an input; tokens were removed from the first.
        rows: A row per sample and measure.
        conservation: The relevance sums over the explained values, if the method has any.
        seconds: The time of the attributions.
        error: Why the method cannot run; empty if it can.
        fatal: An error that is no fault of the method, such as a sample that cannot be read.
    """

    samples: int = 0
    skipped: int = 0
    streams: tuple[str, ...] = ()
    rows: list[ResultRow] = field(default_factory=list)
    conservation: list[float] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""
    fatal: WhyformerError | None = None


@dataclass(frozen=True)
class MeasureTask:
    """Measures the units of a race.

    Args:
        model: The model.
        plan: The methods, and the metrics that decide.
    """

    model: SentModel
    plan: Plan

    def open(self) -> Work:
        """Load the model; return the function from a unit to what was measured."""
        return _Measurer(EvaluatedModel(self.model.load(), ""), self.plan).measure


@dataclass(frozen=True)
class _ReadBatch:
    """The samples of a batch that have at least two tokens."""

    name: str
    evaluation: BatchEvaluation
    samples: int
    skipped: int
    streams: tuple[str, ...]


class _Measurer:
    """A model, and the batch that it measured last: the next unit is often of the same."""

    def __init__(self, model: EvaluatedModel, plan: Plan) -> None:
        self.model, self.plan = model, plan
        self.last: _ReadBatch | None = None

    def measure(self, unit: RaceUnit) -> MeasuredUnit:
        """Measure a unit; errors are values."""
        try:
            if self.last is None or self.last.name != unit.batch:
                self.last = self._read(unit)
            batch = self.last
        except WhyformerError as error:
            return MeasuredUnit(fatal=error)
        if not batch.samples:
            return MeasuredUnit(0, batch.skipped, batch.streams)
        start = time.monotonic()
        try:
            attribution = batch.evaluation.attribution(unit.method, TARGET)
            spent = time.monotonic() - start
            rows = batch.evaluation.rows(unit.method, {TARGET: self.plan.metrics})
        except WhyformerError as error:
            return MeasuredUnit(batch.samples, batch.skipped, batch.streams, error=error.message)
        sums = _conservation(attribution)
        return MeasuredUnit(batch.samples, batch.skipped, batch.streams, rows, sums, spent)

    def _read(self, unit: RaceUnit) -> _ReadBatch:
        """The samples with at least two tokens; the others are counted.

        Whatever the scores, one token is removed at once: it says nothing about methods.
        """
        everything = BatchEvaluation(self.model, self.plan, unit.samples)
        attribution = everything.attribution(REFERENCE, TARGET)
        main = attribution.main
        streams = (main, *(name for name in attribution.streams if name != main))
        enough = removable(attribution.streams[main], None, "keep").sum(1) > 1
        rows = [i for i, some in enumerate(enough.tolist()) if some]
        some = BatchEvaluation(self.model, self.plan, unit.samples.take(rows))
        if rows:
            some.predicted_classes  # noqa: B018  an unreadable sample is no fault of a method
        skipped = len(unit.samples.samples) - len(rows)
        return _ReadBatch(unit.batch, some, len(rows), skipped, streams)


def _conservation(attribution: Attribution) -> list[float]:
    found = attribution.conservation
    return [] if found is None else [float(value) for value in found]
