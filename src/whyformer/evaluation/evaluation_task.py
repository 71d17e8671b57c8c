"""What a worker of an evaluation does: it loads the model once and measures samples, one by one.

A sample runs alone, whatever else is in its chunk: which inputs share a forward pass changes the
last digits of a value, and a value must not depend on the other samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from whyformer.errors import OptionError, UnknownNameError, UnsuitableMethodError, WhyformerError
from whyformer.evaluation.batch_evaluation import BatchEvaluation
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan
from whyformer.evaluation.sample_batches import SampleBatch
from whyformer.evaluation.sent_model import load_again
from whyformer.evaluation.units import EvaluatedModel, ResultRow, runs_on
from whyformer.workers.chunk import Chunk as Piece
from whyformer.workers.chunk import Failure, Work, attempt

# About the plan and the model, not about one sample: every sample would fail.
FATAL = (OptionError, UnknownNameError, UnsuitableMethodError)

Pending = Mapping[str, Sequence[MetricSpec]]  # by target the metrics to compute


@dataclass(frozen=True)
class PendingSample:
    """One sample, and what is to be computed for it."""

    sample: SampleBatch
    methods: Sequence[tuple[MethodSpec, Pending]]

    @property
    def name(self) -> str:
        """The id of the sample."""
        return self.sample.samples[0].id


@dataclass(frozen=True)
class SampleFailure:
    """A sample that could not be measured; `error` is the error itself if it is one of ours."""

    sample: str
    failure: Failure
    error: WhyformerError | None = None


@dataclass(frozen=True)
class ChunkRows:
    """The rows of a chunk, the samples that failed, and an error that is about the whole run."""

    rows: list[ResultRow] = field(default_factory=list)
    failures: list[SampleFailure] = field(default_factory=list)
    fatal: WhyformerError | None = None


@dataclass(frozen=True)
class EvaluationTask:
    """Measures the samples of a plan.

    Args:
        model: The model, or its name if a worker is to load it.
        fingerprint: The model's fingerprint; a worker that loads another model refuses.
        plan: The methods, metrics and targets.
    """

    model: EvaluatedModel | str
    fingerprint: str
    plan: Plan

    def open(self) -> Work:
        """Load the model; return the function from pending samples to their rows."""
        if isinstance(self.model, str):
            loaded = load_again(self.model, self.fingerprint)
            model = EvaluatedModel(loaded, self.fingerprint, runs_on(loaded))
        else:
            model = self.model
        return partial(measure_samples, model, self.plan)


def measure_samples(
    model: EvaluatedModel, plan: Plan, pending: Sequence[PendingSample]
) -> ChunkRows:
    """The rows of some samples; a sample that cannot be measured is listed as a failure."""
    found = ChunkRows()
    for one in pending:
        raised: list[WhyformerError] = []
        finished = attempt(partial(_measure, model, plan, raised), Piece(one.name, one))
        if finished.failure is None:
            found.rows.extend(finished.result)
        elif raised and isinstance(raised[0], FATAL):
            return ChunkRows(found.rows, found.failures, raised[0])  # the next one would fail too
        else:
            error = raised[0] if raised else None
            found.failures.append(SampleFailure(one.name, finished.failure, error))
    return found


def _measure(
    model: EvaluatedModel, plan: Plan, raised: list[WhyformerError], pending: PendingSample
) -> list[ResultRow]:
    batch = BatchEvaluation(model, plan, pending.sample)
    try:
        return [row for method, metrics in pending.methods for row in batch.rows(method, metrics)]
    except WhyformerError as error:
        raised.append(error)
        raise
