"""The race: rounds of more and more samples, each without the methods that are clearly worse."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from whyformer.attribution import Attribution
from whyformer.batching.progress import Progress
from whyformer.errors import ModelError, WhyformerError
from whyformer.evaluation.batch_evaluation import BatchEvaluation
from whyformer.evaluation.plan import MethodSpec, Plan
from whyformer.evaluation.results import ResultKey, Results
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
    left, dropped = _applicable(plan)
    race = _Race(EvaluatedModel(loaded, ""), data, plan, deadline, left, dropped)
    while race.goes_on:
        yield from race.run_round()
        race.compare(drop)
    yield race.result()


@dataclass
class _Race:
    """A race under way."""

    model: EvaluatedModel
    data: RecommendData
    plan: Plan
    deadline: float
    left: list[MethodSpec]
    dropped: list[Drop]
    rounds: int = 0
    used: int = 0  # samples, the skipped ones included
    measured: int = 0
    skipped: int = 0
    compared: int = 0  # samples of the last comparison
    pace: float = 0.0  # seconds per sample and method
    out_of_time: bool = False
    streams: tuple[str, ...] = ()
    standing: Standing | None = None
    scales: dict[str, float] = field(default_factory=dict)
    rows: list[ResultRow] = field(default_factory=list)
    conservation: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def goes_on(self) -> bool:
        """Whether there are samples, time, and several methods left."""
        return self.used < len(self.data.samples) and len(self.left) > 1 and not self.out_of_time

    @property
    def results(self) -> Results:
        """The rows so far."""
        return Results(self.rows, {"metrics": _metric_settings(self.plan)})

    def run_round(self) -> Iterator[Progress]:
        """Measure the samples of the next round by all methods that are left."""
        self.rounds += 1
        samples = self.data.samples[self.used : FIRST * 2 ** (self.rounds - 1)]
        batches = split_samples(samples, self.model.loaded, self.data.names)
        # Not the shortest first: if time is over, the rest of the round is left out.
        random.Random(self.plan.seed + self.rounds).shuffle(batches)
        part = f"round {self.rounds}, {len(self.left)} methods"
        total = len(batches) * len(self.left)
        for place, batch in enumerate(batches):
            start = time.monotonic()
            expected = self.pace * len(batch.samples) * len(self.left)
            if self.measured > 1 and start + expected > self.deadline:
                self.out_of_time = True
                self.rounds -= self.measured == self.compared  # nothing of it was measured
                return
            some = self._with_tokens(batch)
            if some.samples:
                for done, label in enumerate(self._measure(some)):
                    step = min(place * total // len(batches) + done, total)
                    yield Progress(label, step, total, part)
                self.measured += len(some.samples)
                spent = time.monotonic() - start
                self.pace = spent / (len(some.samples) * max(1, len(self.left)))

    def _measure(self, samples: SampleBatch) -> Iterator[str]:
        """Measure one batch by every method that is left; yield the label of each before it."""
        batch = BatchEvaluation(self.model, self.plan, samples)
        batch.predicted_classes  # noqa: B018  an unreadable sample is no fault of a method
        done = 0
        for method in tuple(self.left):
            if self.measured == 0 and done > 1 and time.monotonic() > self.deadline:
                self._drop(method, "not measured: the time was over")
                continue
            yield method.label
            start = time.monotonic()
            try:
                attribution = batch.attribution(method, TARGET)
                spent = time.monotonic() - start
                self.rows += batch.rows(method, {TARGET: self.plan.metrics})
            except WhyformerError as error:
                self._drop(method, f"cannot run: {error.message}")
                continue
            done += 1
            self.seconds[method.label] = self.seconds.get(method.label, 0.0) + spent
            sums = self.conservation.setdefault(method.label, [])
            sums += _conservation(attribution)
        if not self.left:
            raise _no_method_error(self.dropped)

    def _with_tokens(self, batch: SampleBatch) -> SampleBatch:
        """The samples with at least two tokens; the others are counted.

        Whatever the scores, one token is removed at once: it says nothing about methods.
        """
        attribution = BatchEvaluation(self.model, self.plan, batch).attribution(REFERENCE, TARGET)
        main = attribution.main
        self.streams = (main, *(name for name in attribution.streams if name != main))
        enough = removable(attribution.streams[main], None, "keep").sum(1) > 1
        rows = [i for i, some in enumerate(enough.tolist()) if some]
        self.used += len(batch.samples)
        self.skipped += len(batch.samples) - len(rows)
        return batch.take(rows)

    def compare(self, drop: bool) -> None:
        """Compare the methods that are left, and drop those that are significantly worse."""
        if len(self.left) < 2 or self.measured < 2 or self.measured == self.compared:
            return
        self.compared = self.measured
        labels = [one.label for one in self.left]
        measures = list(_metric_settings(self.plan))
        # Once, so that a total means the same in every round.
        self.scales = self.scales or spreads(self.results, labels, measures)
        bootstrap = Bootstrap(PAIRED.draws, self.plan.seed, PAIRED.level)
        self.standing = stand(self.results, labels, self.scales, bootstrap)
        worse = self.standing.worse if drop else ()
        for method in [one for one in self.left if one.label in worse]:
            self._drop(method, "significantly worse than the best", self.standing)

    def _drop(self, method: MethodSpec, reason: str, standing: Standing | None = None) -> None:
        self.left.remove(method)
        self.dropped.append(Drop(method.label, self.rounds, reason, standing))

    def result(self) -> RaceResult:
        """What is known now."""
        results = self.results
        first = next(iter(results.settings["metrics"]))
        counts = {
            label: len(results.samples(ResultKey(label, TARGET, first))) for label in self.seconds
        }
        return RaceResult(
            results,
            tuple(self.left),
            tuple(self.dropped),
            self.standing,
            {label: tuple(sums) for label, sums in self.conservation.items()},
            {label: spent / counts[label] for label, spent in self.seconds.items()},
            self.measured,
            self.skipped,
            self.rounds,
            self.out_of_time,
            self.streams,
        )


def _conservation(attribution: Attribution) -> list[float]:
    found = attribution.conservation
    return [] if found is None else [float(value) for value in found]


def _applicable(plan: Plan) -> tuple[list[MethodSpec], list[Drop]]:
    """The methods that have all measures, and those that do not: some need scores with a sign."""
    left = [one for one in plan.methods if plan.metrics_for(one) == plan.metrics]
    reason = "its scores have no sign, which a metric needs"
    return left, [Drop(one.label, 0, reason) for one in plan.methods if one not in left]


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


def _no_method_error(dropped: Sequence[Drop]) -> ModelError:
    reasons = "; ".join(f"{one.label} {one.reason}" for one in dropped[:3])
    return ModelError(
        f"none of {len(dropped)} methods can explain this model: {reasons}",
        argument="methods",
        remedy="Name other methods, or check the model with explain",
    )
