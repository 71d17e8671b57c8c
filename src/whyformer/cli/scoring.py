"""`whyformer explain --input FILE --out FILE`: every row of a file, a row of scores each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any

import whyformer
from whyformer.attribution import Attribution
from whyformer.batching.series import window_size
from whyformer.cli.console import aside, note
from whyformer.cli.files import OutputError, check_writable
from whyformer.cli.progress import watched
from whyformer.cli.score_file import ScoreFile, form_of, row_of, said
from whyformer.datasets import Contents, Dataset, Row, Sample, Spot, open_dataset
from whyformer.datasets.files import clean, lines
from whyformer.errors import ConservationWarning, InputError, OptionError, SkippedWarning
from whyformer.evaluation import fingerprint
from whyformer.inputs.detect import kind_of
from whyformer.models.load import Loaded, load_model
from whyformer.models.versions import version_of

READERS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
TEXT_LINES = ".txt"
TOLD = 3  # of the rows that were left out


@dataclass(frozen=True)
class Job:
    """What is to be read, how it is explained, and where its scores go."""

    source: str
    out: Path
    model: str | None = None
    column: str | None = None
    target_column: str | None = None
    split: str | None = None
    limit: int | None = None
    batch_size: int | None = None
    skip: bool = False
    settings: dict[str, Any] = field(default_factory=dict)  # of `explain`

    def dataset(self) -> Dataset:
        """The rows of the source, read while they are asked for."""
        named = {"text": self.column, "label": self.target_column}
        columns = {option: column for option, column in named.items() if column is not None}
        chosen: dict[str, Any] = {
            "limit": self.limit,
            "on_error": "skip" if self.skip else "raise",
        }
        asked: dict[str, Any] = {**chosen, **columns}
        path = Path(self.source).expanduser()
        if not path.is_file():
            if ":" not in self.source:
                raise InputError(
                    f"there is no file {self.source!r} to read; check the path, or name a dataset"
                    " and its place, as in --input sst2:PATH"
                )
            return open_dataset(self.source, self.split, **asked)
        suffix = path.suffix.lower()
        if suffix == TEXT_LINES:
            if columns or self.split:
                raise OptionError(
                    f"--input {self.source!r} has a text in every line and no columns or splits:"
                    " leave out --column, --target-column and --split"
                )
            return Dataset("txt", Contents(partial(_text_lines, path)), **chosen)
        if suffix not in READERS:
            raise InputError(
                f"--input {self.source!r}: what is in a file is told by its end, one of"
                f" {', '.join((*READERS, TEXT_LINES))}; or name its format, as in csv:PATH"
            )
        return open_dataset(f"{READERS[suffix]}:{path}", self.split, **asked)


def score(job: Job) -> None:
    """Writes the job's file; a run that was broken off goes on where it was."""
    if job.limit is not None and job.limit < 1:
        raise OptionError(f"--limit {job.limit}: give a whole number from 1")
    out = job.out.expanduser()
    form_of(out)
    check_writable({"--out": out})
    if out.resolve() == Path(job.source).expanduser().resolve():
        raise OutputError(f"--out {str(job.out)!r} is what --input reads; name another file")
    samples = job.dataset()
    with watched() as tell, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SkippedWarning)
        warnings.simplefilter("always", ConservationWarning)
        tell("explaining", 0, 0)
        reading = _labelled(iter(samples), job)
        first = next(reading, None)
        if first is None:
            raise InputError(f"there are no rows in {job.source!r} to explain; check --split")
        kind = kind_of(first.inputs) if job.model is None else None
        loaded = load_model(job.model, None, kind)
        file = ScoreFile(out, _facts(job, loaded.name, fingerprint.of_subject(loaded)))
        rest = chain([first], reading)
        size, total = window_size(job.batch_size), len(samples)
        start = _passed(file, rest, size)
        rows: list[dict[str, Any]] = []
        try:
            for index, row in _rows(job, loaded, rest, start):
                while index // size > len(file.parts):  # a part may have lost all its rows
                    file.add(rows)
                    rows = []
                rows.append(row)
                tell("explaining", index + 1, total)
            if rows or not file.parts:
                file.add(rows)
            file.finish()
        except KeyboardInterrupt:
            note(
                f"broken off: {len(file.parts) * size} inputs are kept in {file.folder}; give the"
                " same command again to go on"
            )
            raise
    _tell(job, samples, start, [warning.message for warning in caught])


def _facts(job: Job, model: str, weights: str) -> dict[str, Any]:
    """All that decides the rows, apart from the inputs themselves."""
    packages = ("whyformer", "torch", "transformers")
    asked = {key: repr(value) for key, value in job.settings.items() if key != "method"}
    return {
        "model": model,
        "weights": weights,
        "method": job.settings["method"],
        "options": asked,
        "input": job.source,
        "column": job.column,
        "target column": job.target_column,
        "split": job.split,
        "limit": job.limit,
        "batch size": job.batch_size,
        "skip errors": job.skip,
        "versions": {package: version_of(package) for package in packages},
    }


def _passed(file: ScoreFile, samples: Iterator[Sample], size: int) -> int:
    """How many inputs earlier runs have finished, after going past them.

    They have to be what they were: a row of another text would not be noticed later.
    """
    for rows in file.done():
        known = {row["id"]: row for row in rows}
        for sample in islice(samples, size):
            row = known.get(sample.id)
            if row is not None and any(row[key] != value for key, value in said(sample).items()):
                raise InputError(
                    f"{sample.id!r} of the input is not what it was when this run began: delete"
                    f" {str(file.folder)!r} to begin anew, or name another file with --out"
                )
    return len(file.parts) * size


def _labelled(samples: Iterator[Sample], job: Job) -> Iterator[Sample]:
    """The samples; where labels are to be explained, one without is refused or left out."""
    for sample in samples:
        if job.target_column is None or sample.label is not None:
            yield sample
            continue
        problem = f"sample {sample.id!r} has nothing in the column {job.target_column!r} to explain"
        if not job.skip:
            raise InputError(
                f"{problem}; leave out --target-column to explain what the model predicts, or pass"
                " on_error='skip'"
            )
        warnings.warn(problem, SkippedWarning, stacklevel=2)


def _rows(
    job: Job, loaded: Loaded, samples: Iterator[Sample], start: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The position and the row of each sample that can be explained."""
    given, kept = tee(samples)
    settings = dict(job.settings)
    if job.target_column is not None:
        given, labelled = tee(given)
        settings["target"] = (sample.label for sample in labelled)
    found: Iterator[Attribution] = whyformer.explain(
        given,
        loaded.module,
        processor=loaded.processor,
        batch_size=job.batch_size,
        on_error="skip" if job.skip else "raise",
        **settings,
    )
    passed = 0
    for attribution in found:
        index = attribution.provenance["index"]
        sample = next(islice(kept, index - passed, None))
        passed = index + 1
        yield start + index, row_of(sample, start + index, attribution)


def _text_lines(file: Path) -> Iterator[Row]:
    """Every line of a file that says something."""
    told = ((spot, line) for spot, line in lines(file) if line.strip())
    for number, (spot, line) in enumerate(told):
        name = f"all/{number}"
        yield Row(name, spot, partial(_line, name, spot, line))


def _line(name: str, spot: Spot, line: str) -> Sample:
    return Sample(name, clean(line, spot).strip())


def _tell(job: Job, samples: Dataset, start: int, messages: list[Any]) -> None:
    """Says what was written, what was taken over, and what was left out."""
    skipped = [str(error) for error in samples.report.skipped]
    skipped += [str(message) for message in messages if isinstance(message, SkippedWarning)]
    if skipped:
        more = f" and {len(skipped) - TOLD} more" if len(skipped) > TOLD else ""
        note(f"{len(skipped)} inputs were left out: {'; '.join(skipped[:TOLD])}{more}")
    lost = [str(message) for message in messages if isinstance(message, ConservationWarning)]
    if lost:
        note(f"in {len(lost)} batches, the first: {lost[0]}")
    before = f", {start} inputs of which an earlier run had finished" if start else ""
    aside().print(f"wrote {job.out}{before}", soft_wrap=True, markup=False)
