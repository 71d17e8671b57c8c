"""The race: rounds of more and more samples, each without the methods that are clearly worse."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from whyformer.attribution import Attribution
from whyformer.batching.progress import Progress
from whyformer.errors import ModelError, WhyformerError
from whyformer.evaluation.batch_evaluation import BatchEvaluation
from whyformer.evaluation.plan import MethodSpec, Plan
from whyformer.evaluation.results import Results
from whyformer.evaluation.sample_batches import SampleBatch, split_samples
from whyformer.evaluation.units import EvaluatedModel, ResultRow, row_facts
from whyformer.metrics import metrics
from whyformer.metrics.token_order import removable
from whyformer.models.load import Loaded
from whyformer.recommend.samples import RecommendData
from whyformer.recommend.standing import TARGET, Standing, spreads, stand
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.statistics.paired import PAIRED

FIRST = 16  # samples of the first round; each round doubles them
REFERENCE = MethodSpec("random", "random", {"seed": 0})  # one forward pass shows the tokens


@dataclass(frozen=True)
class Drop:
    """A method that left the race, and why; `round` is 0 if it never ran."""

    label: str
    round: int
    samples: int
    reason: str
    standing: Standing | None = None  # if it was significantly worse


@dataclass(frozen=True)
class RaceResult:
    """What is known at the end of the race.

    Args:
        results: A row per sample, method and measure; dropped methods have fewer samples.
        left: The methods that were not dropped.
        dropped: The others, in the order in which they left.
        standing: The methods that were left before the last round's drops; None if only one was.
        conservation: Per method its relevance sums over the explained values, as far as it has any.
        seconds: Per method the time of its attributions, per sample.
        samples: How many samples were measured.
        skipped: How many had fewer than two tokens.
        rounds: How many rounds there were.
        out_of_time: Whether samples or methods are left that the time was too short for.
        streams: The streams of an input; tokens were removed from the first.
    """

    results: Results
    left: tuple[MethodSpec, ...]
    dropped: tuple[Drop, ...]
    standing: Standing | None
    conservation: Mapping[str, tuple[float, ...]]
    seconds: Mapping[str, float]
    samples: int
    skipped: int
    rounds: int
    out_of_time: bool
    streams: tuple[str, ...]

    @property
    def measured_none(self) -> bool:
        """Whether every sample was skipped."""
        return self.samples == 0 and self.skipped > 0


@dataclass
class _Record:
    """What was measured so far."""

    rows: list[ResultRow] = field(default_factory=list)
    conservation: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)


def run_race(
    loaded: Loaded, data: RecommendData, plan: Plan, deadline: float, drop: bool = True
) -> Iterator[Progress | RaceResult]:
    """Yield progress, and the result at the end.

    Args:
        loaded: The model.
        data: The samples, in the order in which they are used.
        plan: All methods, the cheapest first, and the decisive metrics.
        deadline: When to stop, by `time.monotonic`. At least one batch is measured.
        drop: Whether methods that are significantly worse are dropped.

    Raises:
        ModelError: No method can explain the model.
        InputError: A sample cannot be read.
    """
    model = EvaluatedModel(loaded, "")
    looks = 1 + math.ceil(math.log2(max(1.0, len(data.samples) / FIRST)))
    left, dropped = _applicable(plan)
    labels = [label for spec in plan.metrics for label in row_facts(spec, plan)]
    settings = {"metrics": _metric_settings(plan)}
    bootstrap = Bootstrap(PAIRED.draws, plan.seed, PAIRED.level)
    record, standing = _Record(), None
    scales: dict[str, float] = {}
    used = number = skipped = measured = 0
    streams: tuple[str, ...] = ()
    pace, out_of_time = 0.0, False  # seconds per sample and method
    while used < len(data.samples) and len(left) > 1 and not out_of_time:
        number += 1
        some = data.samples[used : FIRST * 2 ** (number - 1)]
        batches = split_samples(some, loaded, data.names)
        # Not the shortest first: if time is over, the rest of the round is left out.
        random.Random(plan.seed + number).shuffle(batches)
        total = len(batches) * len(left)
        before = measured
        for at, batch in enumerate(batches):
            start = time.monotonic()
            expected = pace * len(batch.samples) * len(left)
            if measured > 1 and start + expected > deadline:
                out_of_time = True
                number -= measured == before  # nothing of this round was measured
                break
            batch, streams, few = _with_tokens(model, plan, batch)
            used, skipped = used + len(batch.samples) + few, skipped + few
            if not batch.samples:
                continue
            part = f"round {number}, {len(left)} methods"
            steps = _measure(model, plan, batch, left, record, deadline, first=not measured)
            for done, event in enumerate(steps):
                if isinstance(event, MethodSpec):
                    step = at * total // len(batches) + done
                    yield Progress(event.label, min(step, total), total, part)
                else:
                    dropped.append(Drop(event[0].label, number, measured, event[1]))
                    left = tuple(one for one in left if one is not event[0])
            measured += len(batch.samples)
            pace = (time.monotonic() - start) / (len(batch.samples) * max(1, len(left)))
        _check_some_left(left, dropped)
        if len(left) > 1 and measured > max(1, before):
            results = Results(record.rows, settings)
            names = [one.label for one in left]
            scales = scales or spreads(results, names, labels)
            standing = stand(results, names, scales, bootstrap)
            worse = standing.worse(looks) if drop else ()
            dropped += [
                Drop(label, number, standing.samples, "significantly worse than the best", standing)
                for label in worse
            ]
            left = tuple(one for one in left if one.label not in worse)
    yield RaceResult(
        Results(record.rows, settings),
        left,
        tuple(dropped),
        standing,
        {label: tuple(values) for label, values in record.conservation.items()},
        {label: spent / record.samples[label] for label, spent in record.seconds.items()},
        measured,
        skipped,
        number,
        out_of_time,
        streams,
    )


def _measure(
    model: EvaluatedModel,
    plan: Plan,
    samples: SampleBatch,
    left: Sequence[MethodSpec],
    record: _Record,
    deadline: float,
    first: bool,
) -> Iterator[MethodSpec | tuple[MethodSpec, str]]:
    """Measure one batch by every method: yield each before it runs, and (method, reason) if it
    cannot run, or if the time is over in the first batch and two methods are measured."""
    batch = BatchEvaluation(model, plan, samples)
    batch.predicted_classes  # noqa: B018  an unreadable sample is no fault of a method
    measured = 0
    for method in left:
        if first and measured > 1 and _over(deadline):
            yield method, "not measured: the time was over"
            continue
        yield method
        start = time.monotonic()
        try:
            attribution = batch.attribution(method, TARGET)
            spent = time.monotonic() - start
            rows = batch.rows(method, {TARGET: plan.metrics})
        except WhyformerError as error:
            yield method, f"cannot run: {error.message}"
            continue
        measured += 1
        record.rows += rows
        label, count = method.label, len(samples.samples)
        record.seconds[label] = record.seconds.get(label, 0.0) + spent
        record.samples[label] = record.samples.get(label, 0) + count
        record.conservation.setdefault(label, []).extend(_conservation(attribution))


def _conservation(attribution: Attribution) -> list[float]:
    found = attribution.conservation
    return [] if found is None else [float(value) for value in found]


def _with_tokens(
    model: EvaluatedModel, plan: Plan, batch: SampleBatch
) -> tuple[SampleBatch, tuple[str, ...], int]:
    """The samples with two tokens to compare, the names of the streams, and how many were left out.

    Whatever the scores, one token is removed at once: such a sample says nothing about methods.
    """
    attribution = BatchEvaluation(model, plan, batch).attribution(REFERENCE, TARGET)
    stream = attribution.streams[attribution.main]
    enough = removable(stream, None, "keep").sum(1) > 1
    rows = [i for i, some in enumerate(enough.tolist()) if some]
    names = (attribution.main, *(n for n in attribution.streams if n != attribution.main))
    return batch.take(rows), names, len(batch.samples) - len(rows)


def _applicable(plan: Plan) -> tuple[tuple[MethodSpec, ...], list[Drop]]:
    """The methods that have all measures, and those that do not: some need scores with a sign."""
    left = tuple(one for one in plan.methods if plan.metrics_for(one) == plan.metrics)
    reason = "its scores have no sign, which a metric needs"
    return left, [Drop(one.label, 0, 0, reason) for one in plan.methods if one not in left]


def _metric_settings(plan: Plan) -> dict[str, dict[str, object]]:
    return {
        label: {
            "title": metrics[spec.metric].title,
            "better": metrics[spec.metric].better,
            "convention": metrics[spec.metric].convention,
        }
        for spec in plan.metrics
        for label in row_facts(spec, plan)
    }


def _check_some_left(left: Sequence[MethodSpec], dropped: Sequence[Drop]) -> None:
    if not left:
        reasons = "; ".join(f"{one.label} {one.reason}" for one in dropped[:3])
        raise ModelError(
            f"none of {len(dropped)} methods can explain this model: {reasons}",
            argument="methods",
            remedy="Name other methods, or check the model with explain",
        )


def _over(deadline: float) -> bool:
    return time.monotonic() > deadline
