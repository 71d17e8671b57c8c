"""The loop: samples in chunks, a piece of work per chunk and method, tables when all is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.batching.progress import Progress
from whyformer.datasets import Dataset, Sample
from whyformer.errors import InputError
from whyformer.evaluation import fingerprint
from whyformer.evaluation.chunks import check_ids, check_labels, chunked
from whyformer.evaluation.examples import Choice, Example, chosen
from whyformer.evaluation.plan import Contender, Measure, Plan
from whyformer.evaluation.report import report as page
from whyformer.evaluation.results import RESULTS, SETTINGS, Results
from whyformer.evaluation.settings import settings_of
from whyformer.evaluation.store import Store
from whyformer.evaluation.summary import summary
from whyformer.evaluation.tables import markdown
from whyformer.evaluation.work import Bench, Chunk, Row, Subject, parts_of, unit
from whyformer.models.load import Loaded

PER_SIDE = 2  # examples of the best and of the worst, per metric
TABLE, REPORT = "table.md", "report.html"

Told = Callable[[str, int, int], None]  # what is going on, work done, work in all


@dataclass(frozen=True)
class Piece:
    """Work that is still to be done: one chunk, and by method and target the metrics.

    It is done as a whole: its methods share what the model answers, and the numbers are the same
    to the last bit whatever was done before.
    """

    chunk: Chunk
    wanted: Sequence[tuple[Contender, Mapping[str, Sequence[Measure]]]]


def run_evaluation(
    loaded: Loaded, samples: Iterable[Sample], plan: Plan, out: Path | str, **settings: Any
) -> Iterator[Progress | Results]:
    """Stand-in until the evaluation branch is merged, which has the real one: take theirs."""
    events: list[Progress] = []

    def tell(doing: str, done: int, total: int) -> None:
        events.append(Progress(doing, done, total))

    results = evaluate(loaded, samples, plan, out, **settings, tell=tell)
    yield from events
    yield results


def evaluate(
    loaded: Loaded,
    samples: Iterable[Sample],
    plan: Plan,
    out: Path | str,
    *,
    names: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    report: bool = True,
    tell: Told | None = None,
) -> Results:
    """The results of a plan on samples, in `out`; what is there already is not done again.

    `names` are the dataset's names of its labels, `facts` what settings.json is to say beside
    what is known here (the command, where the data come from). `report` writes the page too.
    """
    say: Told = tell or (lambda doing, done, total: None)
    store = Store(Path(out))
    say("reading samples", 0, 0)
    read = list(samples)
    if not read:
        raise InputError("there are no samples to evaluate on; check the split and the limit")
    check_ids(read)
    subject = Subject(loaded, fingerprint.of_subject(loaded))
    chunks = list(chunked(read, loaded, plan, names))
    check_labels(chunks, plan)
    skipped = samples.report.skipped if isinstance(samples, Dataset) else []
    pieces = list(_pieces(chunks, subject, plan, store))
    total = len(chunks) * len(plan.contenders)
    done = total - sum(len(piece.wanted) for piece in pieces)
    for piece in pieces:
        bench, finished = Bench(subject, plan, piece.chunk), []
        for contender, wanted in piece.wanted:
            say(contender.label, done, total)
            finished += bench.rows(contender, wanted)
            done += 1
        store.add(finished)
    rows = _in_order(read, chunks, subject, plan, store)
    settings = settings_of(rows, read, subject, plan, skipped, facts or {})
    columns = [{k: v for k, v in row.items() if k not in ("convention", "steps")} for row in rows]
    store.write_table(RESULTS, columns)
    store.write_json(SETTINGS, settings)
    results = Results(columns, settings)
    store.write_text(TABLE, markdown(results))
    if report:
        say("writing the report", done, total)
        figures = summary(results)
        examples = _examples(chosen(results, PER_SIDE, figures), chunks, subject, plan)
        store.write_text(REPORT, page(results, examples, figures))
    return results


def _examples(
    choices: Sequence[Choice], chunks: Sequence[Chunk], subject: Subject, plan: Plan
) -> list[Example]:
    """The chosen samples, explained once more to be drawn."""
    alone = {
        sample.id: Chunk((sample,), (name,), (label,))
        for chunk in chunks
        for sample, name, label in zip(*vars(chunk).values(), strict=True)
    }
    by_label = {one.label: one for one in plan.contenders}
    benches: dict[str, Bench] = {}
    found = []
    for choice in choices:
        bench = benches.setdefault(choice.sample, Bench(subject, plan, alone[choice.sample]))
        attributions = {
            label: bench.explained(by_label[label], choice.target) for label in choice.methods
        }
        found.append(choice.example(attributions))
    return found


def _pieces(chunks: Sequence[Chunk], subject: Subject, plan: Plan, store: Store) -> Iterator[Piece]:
    """Every chunk of which some unit is not done."""
    for chunk in chunks:
        # Samples that are done are left out: a larger limit adds to what is there.
        places = range(len(chunk.samples))
        rest = [i for i in places if any(_lacking(chunk.among([i]), subject, plan, store))]
        if rest:
            left = chunk.among(rest)
            yield Piece(left, list(_lacking(left, subject, plan, store)))


def _lacking(
    chunk: Chunk, subject: Subject, plan: Plan, store: Store
) -> Iterator[tuple[Contender, Mapping[str, Sequence[Measure]]]]:
    """The metrics that are not done for all of some samples, by method and target."""
    for contender in plan.contenders:
        lacking = {
            target: [
                measure
                for measure in plan.measures_of(contender)
                if not _done(chunk, contender, target, measure, subject, plan, store)
            ]
            for target in plan.targets
        }
        lacking = {target: some for target, some in lacking.items() if some}
        if lacking:
            yield contender, lacking


def _done(
    chunk: Chunk,
    contender: Contender,
    target: str,
    measure: Measure,
    subject: Subject,
    plan: Plan,
    store: Store,
) -> bool:
    return all(
        unit(subject, name, contender, target, facts, plan) in store.done
        for facts in parts_of(measure, plan).values()
        for name in chunk.fingerprints
    )


def _in_order(
    samples: Sequence[Sample],
    chunks: Sequence[Chunk],
    subject: Subject,
    plan: Plan,
    store: Store,
) -> list[Row]:
    """All rows of the plan, in the order of samples, methods, targets and metrics."""
    names = {
        sample.id: name
        for chunk in chunks
        for sample, name in zip(chunk.samples, chunk.fingerprints, strict=True)
    }
    return [
        {
            **store.done[unit(subject, names[sample.id], contender, target, facts, plan)],
            # The same unit may be called otherwise in another plan of the same folder.
            "method": contender.label,
            "metric": label,
        }
        for sample in samples
        for contender in plan.contenders
        for target in plan.targets
        for measure in plan.measures_of(contender)
        for label, facts in parts_of(measure, plan).items()
    ]
