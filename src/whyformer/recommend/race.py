"""The race: rounds of more and more samples, each without the methods that are clearly worse."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from whyformer.batching.progress import Progress
from whyformer.errors import ModelError
from whyformer.evaluation.plan import MethodSpec, Plan
from whyformer.evaluation.results import ResultKey, Results
from whyformer.evaluation.sample_batches import SampleBatch, split_samples
from whyformer.evaluation.sent_model import send_model
from whyformer.evaluation.units import ResultRow, row_facts
from whyformer.metrics import metrics
from whyformer.models.load import Loaded
from whyformer.recommend.measure_task import MeasuredUnit, MeasureTask, RaceUnit
from whyformer.recommend.samples import RecommendData
from whyformer.recommend.standing import TARGET, Standing, spreads, stand
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.statistics.paired import PAIRED
from whyformer.workers import LATER, Chunk, EngineOptions, Finished, open_engine

FIRST = 16  # samples of the first round; each round doubles them


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
    loaded: Loaded,
    data: RecommendData,
    plan: Plan,
    deadline: float,
    drop: bool = True,
    engine: EngineOptions | None = None,
) -> Iterator[Progress | RaceResult]:
    """Yield progress, and the result at the end.

    Args:
        loaded: The model.
        data: The samples, in the order in which they are used.
        plan: All methods, the cheapest first, and the decisive metrics.
        deadline: When to stop, by `time.monotonic`. At least one batch is measured.
        drop: Whether methods that are significantly worse are dropped.
        engine: Where to measure; in this process by default. Only through the deadline does the
            result depend on it.

    Raises:
        ModelError: No method can explain the model.
        InputError: A sample cannot be read.
    """
    left, dropped = _applicable(plan)
    rounds = _cut_rounds(loaded, data, plan.seed)
    race = _Race(rounds, plan, deadline, drop, left, dropped)
    run_on = replace(engine or EngineOptions(), threads=plan.threads)
    task = MeasureTask(send_model(loaded, run_on), plan)
    most = len(left) * sum(map(len, rounds))
    yield Progress("measuring", 0, 0)
    for finished in open_engine(run_on).run(task, race.chunks(), most):
        yield race.keep(finished)
    yield race.result()


def _cut_rounds(loaded: Loaded, data: RecommendData, seed: int) -> list[list[SampleBatch]]:
    """The batches of every round, as if no time limit ended the race."""
    rounds: list[list[SampleBatch]] = []
    used = 0
    while used < len(data.samples):
        stop = FIRST * 2 ** len(rounds)
        batches = split_samples(data.samples[used:stop], loaded, data.names)
        # Not the shortest first: if time is over, the rest of the round is left out.
        random.Random(seed + len(rounds) + 1).shuffle(batches)
        rounds.append(batches)
        used = stop
    return rounds


@dataclass
class _Race:
    """A race under way: it hands out units, and keeps what comes back.

    What comes back is used at the end of a round, in the order of batches and methods: the result
    does not depend on which worker is done first.
    """

    cut: Sequence[Sequence[SampleBatch]]  # the batches of every round
    plan: Plan
    deadline: float
    drop: bool
    left: list[MethodSpec]
    dropped: list[Drop]
    rounds: int = 0
    measured: int = 0
    skipped: int = 0
    compared: int = 0  # samples of the last comparison
    out_of_time: bool = False
    streams: tuple[str, ...] = ()
    standing: Standing | None = None
    scales: dict[str, float] = field(default_factory=dict)
    rows: list[ResultRow] = field(default_factory=list)
    conservation: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    # This round, by unit.
    awaited: dict[str, MethodSpec] = field(default_factory=dict)
    found: dict[str, MeasuredUnit] = field(default_factory=dict)
    steps: int = 0
    failed: set[str] = field(default_factory=set)  # methods that cannot run
    unmeasured: set[str] = field(default_factory=set)  # methods without time
    # For the deadline.
    began: float = 0.0
    promised: int = 0  # samples that are or will be measured
    finished: int = 0  # samples times methods

    @property
    def results(self) -> Results:
        """The rows so far."""
        return Results(self.rows, {"metrics": _metric_settings(self.plan)})

    def chunks(self) -> Iterator[Chunk]:
        """Hand out the units, round by round, while there is time and several methods are left."""
        self.began = time.monotonic()
        for batches in self.cut:
            if len(self.left) < 2 or self.out_of_time:
                return
            self.rounds += 1
            yield from self._round_chunks(batches)
            while self.awaited:
                yield LATER
            if self.out_of_time and not self.found:
                self.rounds -= 1  # nothing of it was measured
            self._close_round(batches)
            self._compare()

    def _round_chunks(self, batches: Sequence[SampleBatch]) -> Iterator[Chunk]:
        self.found, self.steps = {}, len(batches) * len(self.left)
        for place, batch in enumerate(batches):
            if self._is_time_over(batch):
                self.out_of_time = True
                return
            self.promised += len(batch.samples)
            for method in self.left:
                if method.label in self.failed:
                    continue
                if self.rounds == 1 and place == 0 and self._is_first_batch_late():
                    self.unmeasured.add(method.label)
                    continue
                name = self._name(place, method)
                self.awaited[name] = method
                yield Chunk(name, RaceUnit(f"{self.rounds}/{place}", batch, method))

    def _name(self, place: int, method: MethodSpec) -> str:
        return f"{self.rounds}/{place}/{method.label}"

    def _is_time_over(self, batch: SampleBatch) -> bool:
        """Whether the next batch would not be finished in time; two samples always are."""
        if self.promised < 2:
            return False
        now = time.monotonic()
        pace = (now - self.began) / self.finished if self.finished else 0.0
        return now + pace * len(batch.samples) * len(self.left) > self.deadline

    def _is_first_batch_late(self) -> bool:
        """Whether the other methods have no time: two methods always have."""
        good = sum(not one.error for one in self.found.values())
        return good > 1 and time.monotonic() > self.deadline

    def keep(self, finished: Finished) -> Progress:
        """Keep what a worker found until the end of the round."""
        unit = _unit_of(finished)
        if unit.fatal is not None:
            raise unit.fatal
        method = self.awaited.pop(finished.name)
        self.found[finished.name] = unit
        self.finished += unit.samples
        if unit.error:
            self.failed.add(method.label)
        part = f"round {self.rounds}, {len(self.left)} methods"
        return Progress(method.label, len(self.found), self.steps, part)

    def _close_round(self, batches: Sequence[SampleBatch]) -> None:
        """Use what was found, in the order of batches and methods."""
        for place in range(len(batches)):
            read: MeasuredUnit | None = None
            for method in tuple(self.left):
                unit = self.found.get(self._name(place, method))
                if unit is None:
                    if method.label in self.unmeasured:
                        self._drop(method, "not measured: the time was over")
                    continue
                read = unit if unit.streams else read
                if unit.error:
                    self._drop(method, f"cannot run: {unit.error}")
                elif unit.samples:
                    self._add(method, unit)
            if read is not None:
                self.measured += read.samples
                self.skipped += read.skipped
                self.streams = read.streams
            if not self.left:
                raise _no_method_error(self.dropped)
        self.promised = self.measured

    def _add(self, method: MethodSpec, unit: MeasuredUnit) -> None:
        self.rows += unit.rows
        self.seconds[method.label] = self.seconds.get(method.label, 0.0) + unit.seconds
        self.conservation.setdefault(method.label, []).extend(unit.conservation)

    def _compare(self) -> None:
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
        worse = self.standing.worse if self.drop else ()
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


def _unit_of(finished: Finished) -> MeasuredUnit:
    """What a worker found; a method that harms its worker cannot run."""
    if finished.failure is not None:
        return MeasuredUnit(error=finished.failure.error)
    unit: MeasuredUnit = finished.result
    return unit


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
