"""The loop: samples in chunks, a piece of work per chunk and method, tables when all is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from whyformer.assemble import version_of
from whyformer.datasets import Dataset, Sample
from whyformer.errors import InputError
from whyformer.evaluation import fingerprint
from whyformer.evaluation.brought import classes_of, label_of
from whyformer.evaluation.examples import Choice, Example, chosen
from whyformer.evaluation.plan import Contender, Measure, Plan
from whyformer.evaluation.report import report as page
from whyformer.evaluation.results import RESULTS, SETTINGS, Results
from whyformer.evaluation.store import Store
from whyformer.evaluation.summary import summary
from whyformer.evaluation.tables import markdown
from whyformer.evaluation.work import Bench, Chunk, Row, Subject, parts_of, unit
from whyformer.inputs.models import Loaded
from whyformer.inputs.processors import tokenizer_of
from whyformer.inputs.text import unchanged
from whyformer.metrics import metrics

SAMPLES = 32  # at most, in one chunk; what was not finished of one is done again after a kill
IMAGES = 8
TOKENS = 4096  # at most, padding included
PER_SIDE = 2  # examples of the best and of the worst, per metric
TABLE, REPORT = "table.md", "report.html"
VERSIONS = ("whyformer", "torch", "transformers", "tokenizers")
BOOTSTRAP = {"level": 0.95, "draws": 1000, "seed": 0}

Told = Callable[[str, int, int], None]  # what is going on, work done, work in all


@dataclass(frozen=True)
class Piece:
    """Work that is still to be done: one chunk, and by method and target the metrics.

    It is done as a whole: its methods share what the model answers, and the numbers are the same
    to the last bit whatever was done before.
    """

    chunk: Chunk
    wanted: Sequence[tuple[Contender, Mapping[str, Sequence[Measure]]]]


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
    _check_ids(read)
    subject = Subject(loaded, fingerprint.of_model(loaded.module))
    chunks = list(chunked(read, loaded, plan, names))
    _check_labels(chunks, plan)
    skipped = _skipped(samples)
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
    settings = _settings(rows, read, subject, plan, skipped, facts or {})
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


def chunked(
    samples: Sequence[Sample], loaded: Loaded, plan: Plan, names: Sequence[str]
) -> Iterator[Chunk]:
    """The samples by length, in pieces that fit; the same pieces whatever is done already."""
    classes = classes_of(loaded)
    # A label that the model does not have is said before anything is computed.
    labels = tuple(label_of(sample, names, classes) for sample in samples)
    everyone = Chunk(tuple(samples), tuple(map(_named, samples)), labels)
    texts = _lengths(samples, loaded)
    most, lengths = (SAMPLES, texts) if texts else (IMAGES, [1] * len(samples))
    batch: list[int] = []
    for index in sorted(range(len(samples)), key=lambda i: (lengths[i], i)):
        if batch and (len(batch) == most or (len(batch) + 1) * lengths[index] > TOKENS):
            yield everyone.among(batch)
            batch = []
        batch.append(index)
    if batch:
        yield everyone.among(batch)


def _named(sample: Sample) -> str:
    """The sample's name by content; its files are read for it."""
    try:
        return fingerprint.of_sample(sample)
    except OSError as error:
        what = f" {error.filename!r}" if error.filename else ""
        raise InputError(
            f"sample {sample.id!r}: its file{what} cannot be read ({error.strerror or error});"
            " check that it is there and may be read"
        ) from error
    except UnicodeEncodeError as error:
        raise InputError(
            f"sample {sample.id!r}: there is {error.object[error.start : error.end]!r} in its name"
            " or text, which is no character of UTF-8; rename the file, or correct the text"
        ) from error


def _check_ids(samples: Sequence[Sample]) -> None:
    """Nothing; raises where two samples have one id, which rows could not be told apart by."""
    for name, count in Counter(sample.id for sample in samples).items():
        if count > 1:
            raise InputError(f"{count} samples have the id {name!r}; give each an id of its own")


def _check_labels(chunks: Sequence[Chunk], plan: Plan) -> None:
    """Nothing; raises where labels are to be used and a sample has none."""
    against = any(one.options.get("against") == "label" for one in plan.measures)
    if "label" in plan.targets or against:
        for chunk in chunks:
            chunk.classes()


def _lengths(samples: Sequence[Sample], loaded: Loaded) -> list[int]:
    """How many tokens each text has; nothing where samples are not texts."""
    tokenizer = tokenizer_of(loaded.processor, loaded.module)
    texts = [_text(sample.inputs) for sample in samples]
    if tokenizer is None or any(text is None for text in texts):
        return []
    with unchanged(tokenizer):
        ids = tokenizer([str(text) for text in texts], truncation=False, padding=False)
    return [len(row) for row in ids["input_ids"]]


def _text(inputs: Any) -> str | None:
    """What a sample says, pairs in one; None where it is not text alone."""
    if isinstance(inputs, str):
        return inputs
    if isinstance(inputs, Mapping) and isinstance(inputs.get("text"), str):
        return str(inputs["text"])
    both = isinstance(inputs, tuple) and all(isinstance(part, str) for part in inputs)
    return " ".join(inputs) if both else None


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
                for measure in plan.measures
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
    parts = [part for measure in plan.measures for part in parts_of(measure, plan).items()]
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
        for label, facts in parts
    ]


def _skipped(samples: Any) -> list[str]:
    return [str(error) for error in samples.report.skipped] if isinstance(samples, Dataset) else []


def _settings(
    rows: Sequence[Row],
    samples: Sequence[Sample],
    subject: Subject,
    plan: Plan,
    skipped: list[str],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that decides the numbers, and what they mean; no clock, no machine."""
    from whyformer.families import family_of

    module = subject.loaded.module
    family = family_of(module)
    told = {row["metric"]: row["convention"] for row in rows}
    # Curves over a method's own layers have no steps in common, and are not drawn together.
    steps: dict[str, Any] = {}
    for row in rows:
        same = steps.setdefault(row["metric"], row["steps"]) == row["steps"]
        steps[row["metric"]] = row["steps"] if same else None
    return {
        **{k: v for k, v in facts.items() if k != "data"},
        "model": {
            "name": subject.loaded.name,
            "class": type(module).__name__,
            "family": family.name if family else "default",
            "fingerprint": subject.fingerprint,
        },
        "data": {**facts.get("data", {}), "samples": len(samples), "skipped": skipped},
        "methods": {one.label: one.facts for one in plan.contenders},
        "metrics": {
            label: {
                **measure.facts,
                "title": metrics[measure.metric].title,
                "better": metrics[measure.metric].better,
                "range": list(metrics[measure.metric].range),
                "paper": metrics[measure.metric].paper,
                "convention": told[label],
                "steps": steps[label],
            }
            for measure in plan.measures
            for label in parts_of(measure, plan)
        },
        "targets": list(plan.targets),
        "fill": plan.fill or "each stream's default",
        "seed": plan.seed,
        "truncation": plan.truncation,
        "threads": torch.get_num_threads(),
        "bootstrap": BOOTSTRAP,
        "versions": {package: version_of(package) for package in VERSIONS},
    }
