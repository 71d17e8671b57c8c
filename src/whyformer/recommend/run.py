"""Run a recommendation: data -> measures and candidates -> race -> the method to use."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whyformer.batching.progress import Progress
from whyformer.errors import InputError, OptionError
from whyformer.evaluation.plan import MethodSpec, Plan
from whyformer.evaluation.results import ResultKey
from whyformer.inputs.detect import kind_of
from whyformer.methods import methods
from whyformer.metrics import interval
from whyformer.models.load import load_model
from whyformer.recommend.candidates import declared_cost, default_candidates, named_candidates
from whyformer.recommend.measures import check_needs, default_measures, named_measures
from whyformer.recommend.race import Drop, RaceResult, run_race
from whyformer.recommend.recommendation import MeasuredValue, MethodRow, Recommendation
from whyformer.recommend.samples import RecommendData, check_count, read_data
from whyformer.recommend.sentence import notes_of, sentence_of
from whyformer.recommend.standing import TARGET, Standing
from whyformer.workers import EngineOptions

CONSERVED = 0.05  # how far the sum may be from the output, relative to the output ...
MOSTLY = 0.95  # ... on this share of the samples


@dataclass(frozen=True)
class RecommendOptions:
    """The keyword arguments of `recommend`, which describes them."""

    methods: Sequence[Any] | None = None
    metrics: Sequence[Any] | None = None
    seconds: float = 100.0
    samples: int | None = None
    seed: int = 0
    fill: str | None = None
    truncation: bool = False
    race: bool = True
    engine: EngineOptions = field(default_factory=EngineOptions)
    device: str | None = None  # of a model that is loaded by its name
    dtype: str | None = None


def run_recommend(
    model: Any, data: Any, options: RecommendOptions, processor: Any = None
) -> Iterator[Progress | Recommendation]:
    """Recommend step by step: yield `Progress`, and the `Recommendation` at the end.

    The arguments are those of `recommend`.
    """
    start = time.monotonic()
    if isinstance(options.seconds, bool) or not options.seconds > 0:
        raise OptionError(
            f"seconds={options.seconds!r} is no time",
            argument="seconds",
            remedy="Pass a number of seconds, such as 120",
        )
    candidates = (
        default_candidates(options.seed)
        if options.methods is None
        else named_candidates(options.methods, options.seed)
    )
    named = None if options.metrics is None else named_measures(options.metrics, options.fill)
    yield Progress("reading samples", 0, 0)
    found = read_data(data, model, options.samples, options.seed)
    kind = kind_of([found.samples[0].inputs]) if model is None else None
    loaded = load_model(model, processor, kind, options.device, options.dtype)
    measures = default_measures(loaded, found.samples, options.fill) if named is None else named
    plan = Plan(
        candidates,
        measures,
        (TARGET,),
        options.fill,
        options.seed,
        options.truncation,
        options.engine.threads,
    )
    check_needs(plan.metrics, found.samples)
    deadline = start + options.seconds
    for event in run_race(loaded, found, plan, deadline, options.race, options.engine):
        if isinstance(event, RaceResult):
            spent = time.monotonic() - start
            yield _recommendation(event, plan, found, loaded.name, options.seconds, spent)
        else:
            yield event


def _recommendation(
    result: RaceResult,
    plan: Plan,
    data: RecommendData,
    model: str,
    limit: float,
    spent: float,
) -> Recommendation:
    if result.measured_none:
        raise InputError(
            f"all {result.skipped} samples have fewer than two tokens to compare",
            argument="data",
            remedy="Pass longer texts",
        )
    check_count(result.samples)
    worse = result.standing.worse if result.standing else ()
    level = [one for one in result.left if one.label not in worse]
    chosen = _choose(level, result)
    rows = sorted((_row(one, result, chosen, level) for one in plan.methods), key=_place)
    return Recommendation(
        chosen.label,
        chosen.method,
        dict(chosen.options),
        sentence_of(rows, result),
        tuple(rows),
        notes_of(rows, result, limit),
        model,
        data.source,
        result.samples,
        result.rounds,
        tuple(result.results.settings["metrics"]),
        plan.seed,
        spent,
    )


def _choose(level: Sequence[MethodSpec], result: RaceResult) -> MethodSpec:
    """Of methods that do not differ significantly: one that conserves, then the cheapest."""

    def preference(one: MethodSpec) -> tuple[Any, ...]:
        return (
            conserves(one, result) is not True,
            declared_cost(methods[one.method]),
            -_total(one, result),
        )

    return min(level, key=preference)


def conserves(one: MethodSpec, result: RaceResult) -> bool | None:
    """Whether its sums were right on nearly all samples; None if it does not promise that."""
    values = result.conservation.get(one.label, ())
    if not methods[one.method].promises_sum or not values:
        return None
    return sum(abs(value - 1) <= CONSERVED for value in values) >= MOSTLY * len(values)


def _total(one: MethodSpec, result: RaceResult) -> float:
    return 0.0 if result.standing is None else result.standing.totals[one.label]


def _place(row: MethodRow) -> tuple[Any, ...]:
    """The recommended method, those level with it, then the last to leave first."""
    outcome = ("recommended", "level", "dropped").index(row.outcome)
    behind = math.inf if math.isnan(row.behind) else row.behind
    return outcome, -row.samples, behind


def _row(
    one: MethodSpec, result: RaceResult, chosen: MethodSpec, level: Sequence[MethodSpec]
) -> MethodRow:
    drop = next((drop for drop in result.dropped if drop.label == one.label), None)
    standing = result.standing if drop is None else drop.standing
    key = ResultKey(one.label, TARGET, next(iter(result.results.settings["metrics"])))
    behind, low, high, p = _behind(one, standing)
    outcome = "recommended" if one is chosen else "level" if one in level else "dropped"
    return MethodRow(
        one.label,
        one.method,
        dict(one.options),
        outcome,
        result.rounds if drop is None else drop.round,
        len(result.results.samples(key)),
        _values(one, result),
        behind,
        low,
        high,
        p,
        conserves(one, result),
        _reason(outcome, drop),
        result.seconds.get(one.label, math.nan),
    )


def _reason(outcome: str, drop: Drop | None) -> str:
    if drop is not None:
        return drop.reason
    return "significantly worse than the best" if outcome == "dropped" else ""


def _behind(one: MethodSpec, standing: Standing | None) -> tuple[float, float, float, float]:
    """How far behind the best, its interval, and p."""
    if standing is not None and one.label == standing.best:
        return 0.0, 0.0, 0.0, 1.0
    if standing is None or one.label not in standing.behind:
        return math.nan, math.nan, math.nan, math.nan
    found = standing.behind[one.label]
    return found.value, found.low, found.high, standing.p[one.label]


def _values(one: MethodSpec, result: RaceResult) -> tuple[MeasuredValue, ...]:
    found = []
    for measure, known in result.results.settings["metrics"].items():
        score = result.results.score(ResultKey(one.label, TARGET, measure))
        if score is not None:
            low, high = interval(score) if len(score) > 1 else (math.nan, math.nan)
            found.append(MeasuredValue(measure, known["better"], score.mean, low, high))
    return tuple(found)
