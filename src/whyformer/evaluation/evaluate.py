"""Run an evaluation: samples in batches, each batch by every method, then tables and a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whyformer.batching.progress import Progress
from whyformer.datasets import Dataset, Sample
from whyformer.errors import InputError
from whyformer.evaluation import fingerprint
from whyformer.evaluation.batch_evaluation import BatchEvaluation
from whyformer.evaluation.examples import Choice, ReportExample, choose_examples
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan
from whyformer.evaluation.report import build_report
from whyformer.evaluation.results import RESULTS, SETTINGS, Results
from whyformer.evaluation.sample_batches import (
    SampleBatch,
    check_ids,
    check_labels,
    split_samples,
)
from whyformer.evaluation.settings import settings_of
from whyformer.evaluation.store import Store
from whyformer.evaluation.summary import summary
from whyformer.evaluation.tables import markdown
from whyformer.evaluation.units import EvaluatedModel, ResultRow, row_facts, unit_id
from whyformer.models.load import Loaded

PER_SIDE = 2  # examples of the best and of the worst samples, per metric
TABLE, REPORT = "table.md", "report.html"
NOT_IN_RESULTS = ("convention", "steps", "fill")  # columns that settings.json has once per metric

Pending = Mapping[str, Sequence[MetricSpec]]  # by target the metrics to compute


@dataclass(frozen=True)
class PendingBatch:
    """Samples that are not finished, and what to compute for them.

    It is stored as a whole: its methods share the model's logits, so that the numbers are the same
    to the last bit whatever was finished before.
    """

    samples: SampleBatch
    methods: Sequence[tuple[MethodSpec, Pending]]


@dataclass(frozen=True)
class RunOptions:
    """The keyword arguments of `evaluate`, which describes them."""

    names: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    report: bool = True


def evaluate(
    loaded: Loaded,
    samples: Iterable[Sample],
    plan: Plan,
    out: Path | str,
    *,
    names: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    report: bool = True,
) -> Results:
    """Evaluate methods on samples and return the results, which are also written to a folder.

    Units that the folder already has are not computed again.

    Args:
        loaded: The model with its processor, from `load_model`.
        samples: A dataset or a list of samples; each needs a different id.
        plan: The methods, metrics and targets.
        out: The folder for results, tables and the report.
        names: The dataset's names of its labels, in their order.
        facts: Further entries of settings.json, such as the command and the source of the data.
        report: Whether to write report.html too.

    Returns:
        One value per sample, method, target and metric.

    Raises:
        InputError: There are no samples, or one cannot be read or explained.
        StoreError: The folder cannot be read or written.

    Example:
        >>> plan = Plan(method_specs(["gae"]), metric_specs(["auac"]))  # doctest: +SKIP
        >>> evaluate(load_model("sst2", None, None), samples, plan, "run")  # doctest: +SKIP
    """
    options = RunOptions(names, facts or {}, report)
    *_, results = run_evaluation(loaded, samples, plan, out, options)
    assert isinstance(results, Results)
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
    store = Store(Path(out))
    yield Progress("reading samples", 0, 0)
    read = list(samples)
    if not read:
        raise InputError(
            "there are no samples to evaluate on",
            argument="samples",
            remedy="Check the split and the limit of the dataset",
        )
    check_ids(read)
    model = EvaluatedModel(loaded, fingerprint.of_loaded(loaded))
    batches = split_samples(read, loaded, options.names)
    check_labels(batches, plan)
    pending = list(_pending_batches(batches, model, plan, store))
    total = len(batches) * len(plan.methods)
    done = total - sum(len(one.methods) for one in pending)
    for one in pending:
        batch, rows = BatchEvaluation(model, plan, one.samples), []
        for method, metrics in one.methods:
            yield Progress(method.label, done, total)
            rows += batch.rows(method, metrics)
            done += 1
        store.add(rows)
    results = _write_results(
        read, batches, model, plan, store, _skipped_rows(samples), options.facts
    )
    if options.report:
        yield Progress("writing the report", done, total)
        figures = summary(results)
        examples = _examples(choose_examples(results, PER_SIDE, figures), batches, model, plan)
        store.write_text(REPORT, build_report(results, examples, figures))
    yield results


def _skipped_rows(samples: Iterable[Sample]) -> Sequence[object]:
    """The rows that the dataset left out while it was read."""
    return samples.report.skipped if isinstance(samples, Dataset) else []


def _write_results(
    samples: Sequence[Sample],
    batches: Sequence[SampleBatch],
    model: EvaluatedModel,
    plan: Plan,
    store: Store,
    skipped: Sequence[object],
    facts: Mapping[str, Any],
) -> Results:
    """The results of all finished units; writes them, the settings and the table."""
    rows = _ordered_rows(samples, batches, model, plan, store)
    settings = settings_of(rows, samples, model, plan, skipped, facts)
    columns = [{k: v for k, v in row.items() if k not in NOT_IN_RESULTS} for row in rows]
    results = Results(columns, settings)
    store.write_table(RESULTS, columns)
    store.write_json(SETTINGS, settings)
    store.write_text(TABLE, markdown(results))
    return results


def _examples(
    choices: Sequence[Choice], batches: Sequence[SampleBatch], model: EvaluatedModel, plan: Plan
) -> list[ReportExample]:
    """The chosen samples, explained again one by one to be drawn."""
    alone = {
        sample.id: batch.take([row])
        for batch in batches
        for row, sample in enumerate(batch.samples)
    }
    by_label = {method.label: method for method in plan.methods}
    evaluations: dict[str, BatchEvaluation] = {}
    found = []
    for choice in choices:
        sample = alone[choice.sample]
        one = evaluations.setdefault(choice.sample, BatchEvaluation(model, plan, sample))
        pairs = [(by_label[label], choice.target) for label in choice.methods]
        attributions = dict(zip(choice.methods, one.attributions(pairs), strict=True))
        found.append(choice.example(attributions))
    return found


def _pending_batches(
    batches: Sequence[SampleBatch], model: EvaluatedModel, plan: Plan, store: Store
) -> Iterator[PendingBatch]:
    """The unfinished samples of every batch that has some."""
    for batch in batches:
        # Finished samples are left out: a larger limit adds to what is there.
        rows = range(len(batch.samples))
        rest = [i for i in rows if any(_pending_metrics(batch.take([i]), model, plan, store))]
        if rest:
            left = batch.take(rest)
            yield PendingBatch(left, list(_pending_metrics(left, model, plan, store)))


def _pending_metrics(
    batch: SampleBatch, model: EvaluatedModel, plan: Plan, store: Store
) -> Iterator[tuple[MethodSpec, Pending]]:
    """By method and target the metrics that are unfinished for some of the samples."""
    for method in plan.methods:
        pending = {}
        for target in plan.targets:
            specs = [
                spec
                for spec in plan.metrics_for(method)
                if any(
                    unit_id(model, name, method, target, facts, plan) not in store.done
                    for facts in row_facts(spec, plan).values()
                    for name in batch.fingerprints
                )
            ]
            if specs:
                pending[target] = specs
        if pending:
            yield method, pending


def _ordered_rows(
    samples: Sequence[Sample],
    batches: Sequence[SampleBatch],
    model: EvaluatedModel,
    plan: Plan,
    store: Store,
) -> list[ResultRow]:
    """All rows of the plan, in the order of samples, methods, targets and metrics."""
    names = {
        sample.id: name
        for batch in batches
        for sample, name in zip(batch.samples, batch.fingerprints, strict=True)
    }
    return [
        {
            **store.done[unit_id(model, names[sample.id], method, target, facts, plan)],
            # Another plan in the same folder may have other labels for the same unit.
            "method": method.label,
            "metric": label,
        }
        for sample in samples
        for method in plan.methods
        for target in plan.targets
        for spec in plan.metrics_for(method)
        for label, facts in row_facts(spec, plan).items()
    ]
