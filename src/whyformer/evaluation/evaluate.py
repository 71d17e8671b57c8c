"""Run an evaluation: chunks of samples by an engine's workers, then tables and a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whyformer.batching.progress import Progress
from whyformer.datasets import Dataset, Sample
from whyformer.errors import InputError, SkippedWarning, WhyformerError, warn_caller
from whyformer.evaluation.batch_evaluation import BatchEvaluation
from whyformer.evaluation.evaluation_task import (
    ChunkRows,
    EvaluationTask,
    Pending,
    PendingSample,
    SampleFailure,
)
from whyformer.evaluation.examples import Choice, ReportExample, choose_examples
from whyformer.evaluation.plan import MethodSpec, Plan
from whyformer.evaluation.report import build_report
from whyformer.evaluation.results import RESULTS, SETTINGS, Results
from whyformer.evaluation.sample_batches import (
    SampleBatch,
    check_ids,
    check_labels,
    cut_samples,
    label_samples,
)
from whyformer.evaluation.settings import settings_of
from whyformer.evaluation.store import Store
from whyformer.evaluation.summary import summary
from whyformer.evaluation.tables import markdown
from whyformer.evaluation.units import EvaluatedModel, ResultRow, row_facts, unit_id
from whyformer.models.load import Loaded
from whyformer.workers import Chunk, EngineOptions, Finished, open_engine

PER_SIDE = 2  # examples of the best and of the worst samples, per metric
TABLE, REPORT = "table.md", "report.html"
COMMAND = "command.json"  # how the run was started: `whyformer runs resume` starts it again
NOT_IN_RESULTS = ("convention", "steps", "fill")  # columns that settings.json has once per metric
FUTILE = 8  # failed samples without a single success: the rest would fail too


class EvaluationError(WhyformerError, RuntimeError):
    """No sample could be evaluated."""


@dataclass(frozen=True)
class RunOptions:
    """The keyword arguments of `evaluate`, which describes them."""

    names: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    report: bool = True
    engine: EngineOptions = field(default_factory=EngineOptions)


def evaluate(
    loaded: Loaded,
    samples: Iterable[Sample],
    plan: Plan,
    out: Path | str,
    *,
    names: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    report: bool = True,
    engine: EngineOptions | None = None,
) -> Results:
    """Evaluate methods on samples and return the results, which are also written to a folder.

    Units that the folder already has are not computed again. A sample that cannot be evaluated is
    tried again, then left out and listed in the settings and tables.

    Args:
        loaded: The model with its processor, from `load_model`.
        samples: A dataset or a list of samples; each needs a different id.
        plan: The methods, metrics and targets.
        out: The folder for results, tables and the report, or a URL such as s3://bucket/run.
        names: The dataset's names of its labels, in their order.
        facts: Further entries of settings.json, such as the command and the source of the data.
        report: Whether to write report.html too.
        engine: Where the work runs, and with how many workers; in this process by default. The
            values do not depend on it.

    Returns:
        One value per sample, method, target and metric.

    Raises:
        InputError: There are no samples, or none can be read and explained.
        StoreError: The folder cannot be read or written.
        EngineError: The workers cannot be started or reached.

    Example:
        >>> plan = Plan(method_specs(["gae"]), metric_specs(["auac"]))  # doctest: +SKIP
        >>> evaluate(load_model("sst2", None, None), samples, plan, "run")  # doctest: +SKIP
    """
    options = RunOptions(names, facts or {}, report, engine or EngineOptions())
    *_, results = run_evaluation(loaded, samples, plan, out, options)
    assert isinstance(results, Results)
    if results.failures:
        warn_caller(failure_text(results), SkippedWarning)
    return results


def run_evaluation(
    loaded: Loaded,
    samples: Iterable[Sample],
    plan: Plan,
    out: Path | str,
    options: RunOptions | None = None,
) -> Iterator[Progress | Results]:
    """Evaluate step by step: yield a `Progress` before each step, and the `Results` at the end.

    The arguments are those of `evaluate`.
    """
    options = options or RunOptions()
    store = Store(out)
    yield Progress("reading samples", 0, 0)
    read = list(samples)
    if not read:
        raise InputError(
            "there are no samples to evaluate on",
            argument="samples",
            remedy="Check the split and the limit of the dataset",
        )
    check_ids(read)
    model = EvaluatedModel.of(loaded)
    every = label_samples(read, loaded, options.names)
    check_labels([every], plan)
    if options.facts:
        store.write_json(COMMAND, options.facts)
    failures: list[SampleFailure] = []
    for event in _compute(every, model, plan, store, options.engine):
        if isinstance(event, Progress):
            yield event
        else:
            failures = event
    failed = {one.sample for one in failures}
    sound = every.take([i for i, one in enumerate(read) if one.id not in failed])
    skipped = _skipped_rows(samples)
    results = _write_results(sound, model, plan, store, skipped, failures, options.facts)
    if options.report:
        yield Progress("writing the report", len(read), len(read))
        figures = summary(results)
        examples = _examples(choose_examples(results, PER_SIDE, figures), sound, model, plan)
        store.write_text(REPORT, build_report(results, examples, figures))
    yield results


def failure_text(results: Results) -> str:
    """Return a sentence about the samples that failed; empty if none did."""
    failures = results.failures
    if not failures:
        return ""
    total = results.settings["data"]["samples"]
    first = failures[0]
    more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
    return (
        f"{len(failures)} of {total} samples could not be evaluated and are left out:"
        f" {first['sample']!r} ({first['error']}){more}. Run the same"
        " evaluation again to retry them"
    )


def _compute(
    samples: SampleBatch, model: EvaluatedModel, plan: Plan, store: Store, options: EngineOptions
) -> Iterator[Progress | list[SampleFailure]]:
    """Compute what is unfinished; yield progress, and the samples that failed at the end."""
    total = len(samples.samples)
    chunks = [
        Chunk(str(number), pending)
        for number, chunk in enumerate(cut_samples(samples))
        if (pending := list(_pending_samples(chunk, model, plan, store)))
    ]
    failures: list[SampleFailure] = []
    if chunks:
        finished = total - sum(len(chunk.payload) for chunk in chunks)
        engine = open_engine(replace(options, threads=plan.threads))
        in_process = options.engine == "local" and options.workers == 1
        source = None if in_process else model.loaded.source
        task = EvaluationTask(source or model, model.fingerprint, plan)
        # A chunk whose worker died is computed again sample by sample: one of them is to blame.
        alone: list[Chunk] = []
        for round_chunks in (chunks, alone):
            if not round_chunks:
                continue
            sizes = {chunk.name: chunk for chunk in round_chunks}
            yield Progress("measuring", finished, total)
            for one in engine.run(task, iter(round_chunks), len(round_chunks)):
                chunk = sizes[one.name]
                if one.failure is not None and len(chunk.payload) > 1:
                    alone += [
                        Chunk(f"{chunk.name}/{i}", [each]) for i, each in enumerate(chunk.payload)
                    ]
                    continue
                rows = _rows_of(one, chunk)
                store.add(rows.rows)
                if rows.fatal is not None:
                    raise rows.fatal
                failures += rows.failures
                finished += len(chunk.payload)
                if len(failures) >= min(FUTILE, total) and len(failures) == finished:
                    raise _all_failed(failures)
                yield Progress("measuring", finished, total)
    order = {sample.id: place for place, sample in enumerate(samples.samples)}
    yield sorted(failures, key=lambda one: order[one.sample])


def _rows_of(finished: Finished, chunk: Chunk) -> ChunkRows:
    """The rows of a finished chunk; a chunk of one sample that has none is a failed sample."""
    if finished.failure is None:
        rows: ChunkRows = finished.result
        return rows
    return ChunkRows(failures=[SampleFailure(chunk.payload[0].name, finished.failure)])


def _all_failed(failures: Sequence[SampleFailure]) -> WhyformerError:
    """The error of a run in which every sample failed: that of the first sample, if it is ours."""
    first = failures[0]
    if first.error is not None:
        return first.error
    return EvaluationError(
        f"all of the first {len(failures)} samples failed: sample {first.sample!r}:"
        f" {first.failure.error}",
        argument="samples",
        remedy=f"This may be a bug. The traceback ends with:\n{first.failure.details}"
        if first.failure.details
        else "Use fewer workers, or a machine with more memory",
    )


def _skipped_rows(samples: Iterable[Sample]) -> Sequence[object]:
    """The rows that the dataset left out while it was read."""
    return samples.report.skipped if isinstance(samples, Dataset) else []


def _write_results(
    samples: SampleBatch,
    model: EvaluatedModel,
    plan: Plan,
    store: Store,
    skipped: Sequence[object],
    failures: Sequence[SampleFailure],
    facts: Mapping[str, Any],
) -> Results:
    """The results of all finished units; writes them, the settings and the table."""
    rows = _ordered_rows(samples, model, plan, store)
    settings = settings_of(rows, len(samples.samples), model, plan, skipped, failures, facts)
    columns = [{k: v for k, v in row.items() if k not in NOT_IN_RESULTS} for row in rows]
    results = Results(columns, settings)
    store.write_table(RESULTS, columns)
    store.write_json(SETTINGS, settings)
    store.write_text(TABLE, markdown(results))
    return results


def _examples(
    choices: Sequence[Choice], samples: SampleBatch, model: EvaluatedModel, plan: Plan
) -> list[ReportExample]:
    """The chosen samples, explained again to be drawn."""
    places = {sample.id: row for row, sample in enumerate(samples.samples)}
    by_label = {method.label: method for method in plan.methods}
    evaluations: dict[str, BatchEvaluation] = {}
    found = []
    for choice in choices:
        sample = samples.take([places[choice.sample]])
        one = evaluations.setdefault(choice.sample, BatchEvaluation(model, plan, sample))
        pairs = [(by_label[label], choice.target) for label in choice.methods]
        attributions = dict(zip(choice.methods, one.attributions(pairs), strict=True))
        found.append(choice.example(attributions))
    return found


def _pending_samples(
    chunk: SampleBatch, model: EvaluatedModel, plan: Plan, store: Store
) -> Iterator[PendingSample]:
    """The unfinished samples of a chunk, each with what is missing."""
    for row in range(len(chunk.samples)):
        sample = chunk.take([row])
        methods = list(_pending_metrics(sample, model, plan, store))
        if methods:
            yield PendingSample(sample, methods)


def _pending_metrics(
    sample: SampleBatch, model: EvaluatedModel, plan: Plan, store: Store
) -> Iterator[tuple[MethodSpec, Pending]]:
    """By method and target the metrics that are unfinished for one sample."""
    (name,) = sample.fingerprints
    for method in plan.methods:
        pending = {}
        for target in plan.targets:
            specs = [
                spec
                for spec in plan.metrics_for(method)
                if any(
                    unit_id(model, name, method, target, facts, plan) not in store.done
                    for facts in row_facts(spec, plan).values()
                )
            ]
            if specs:
                pending[target] = specs
        if pending:
            yield method, pending


def _ordered_rows(
    samples: SampleBatch, model: EvaluatedModel, plan: Plan, store: Store
) -> list[ResultRow]:
    """All rows of the plan, in the order of samples, methods, targets and metrics."""
    return [
        {
            **store.done[unit_id(model, name, method, target, facts, plan)],
            # Another plan in the same folder may have other labels for the same unit.
            "method": method.label,
            "metric": label,
        }
        for name in samples.fingerprints
        for method in plan.methods
        for target in plan.targets
        for spec in plan.metrics_for(method)
        for label, facts in row_facts(spec, plan).items()
    ]
