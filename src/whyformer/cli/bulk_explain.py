"""`whyformer explain --input FILE --out FILE`: explain every row of a file."""

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
from whyformer.batching.progress import Progress
from whyformer.batching.series import window_size
from whyformer.cli.console import note, stderr_console
from whyformer.cli.files import OutputError, check_writable
from whyformer.cli.progress import progress_bar
from whyformer.cli.score_writer import ScoreWriter, format_of, input_columns, score_row
from whyformer.datasets import Contents, Dataset, DatasetRow, Sample, Spot, open_dataset
from whyformer.datasets.files import read_lines, require_utf8
from whyformer.errors import InputError, OptionError, SkippedWarning, TrustWarning
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
SHOWN = 3  # skipped rows in the summary


@dataclass(frozen=True)
class BulkJob:
    """What to read, how to explain it, and where to write the scores."""

    source: str
    out: Path
    model: str | None = None
    column: str | None = None
    target_column: str | None = None
    split: str | None = None
    limit: int | None = None
    batch_size: int | None = None
    skip: bool = False
    settings: dict[str, Any] = field(default_factory=dict)  # keywords of `explain`
    device: str | None = None
    dtype: str | None = None

    @property
    def on_error(self) -> str:
        """The value of `on_error` in Python."""
        return "skip" if self.skip else "raise"

    def dataset(self) -> Dataset:
        """Return the rows of the source; they are read lazily."""
        roles = {"text": self.column, "label": self.target_column}
        columns: dict[str, Any] = {
            role: column for role, column in roles.items() if column is not None
        }
        settings: dict[str, Any] = {"limit": self.limit, "on_error": self.on_error}
        path = Path(self.source).expanduser()
        if not path.is_file():
            if ":" not in self.source:
                raise InputError(
                    f"there is no file {self.source!r} to read",
                    remedy="Check the path, or name a dataset with its path: --input sst2:PATH",
                )
            return open_dataset(self.source, self.split, **settings, **columns)
        suffix = path.suffix.lower()
        if suffix == TEXT_LINES:
            if columns or self.split:
                raise OptionError(
                    f"--input {self.source!r} has one text per line, without columns or splits",
                    remedy="Leave out --column, --target-column and --split",
                )
            return Dataset("txt", Contents(partial(_text_lines, path)), **settings)
        if suffix not in READERS:
            raise InputError(
                f"--input {self.source!r} has an unknown suffix, expected one of"
                f" {', '.join((*READERS, TEXT_LINES))}",
                remedy="Name the format, as in --input csv:PATH",
            )
        return open_dataset(f"{READERS[suffix]}:{path}", self.split, **settings, **columns)


def explain_rows(job: BulkJob) -> None:
    """Write the scores of every row; continue an interrupted run where it stopped."""
    if job.limit is not None and job.limit < 1:
        raise OptionError(
            f"--limit {job.limit} leaves no rows", remedy="Pass a whole number from 1"
        )
    out = job.out.expanduser()
    format_of(out)
    check_writable({"--out": out})
    if out.resolve() == Path(job.source).expanduser().resolve():
        raise OutputError(
            f"--out {str(job.out)!r} is the file that --input reads", remedy="Name another file"
        )
    samples = job.dataset()
    with progress_bar() as report, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SkippedWarning)
        warnings.simplefilter("always", TrustWarning)
        report(Progress("explaining", 0, 0))
        reading = _check_labels(iter(samples), job)
        first = next(reading, None)
        if first is None:
            raise InputError(
                f"there are no rows in {job.source!r} to explain",
                remedy="Check --split, and that the file is not empty",
            )
        kind = kind_of(first.inputs) if job.model is None else None
        loaded = load_model(job.model, None, kind, job.device, job.dtype)
        file = ScoreWriter(out, _facts(job, loaded.name, fingerprint.of_loaded(loaded)))
        rest = chain([first], reading)
        size, total = window_size(job.batch_size), len(samples)
        start = _skip_finished(file, rest, size)
        rows: list[dict[str, Any]] = []
        try:
            for index, row in _rows(job, loaded, rest, start):
                while index // size > len(file.parts):  # all rows of a part may have been skipped
                    file.add(rows)
                    rows = []
                rows.append(row)
                report(Progress("explaining", index + 1, total))
            if rows or not file.parts:
                file.add(rows)
            file.finish()
        except KeyboardInterrupt:
            note(
                f"interrupted: {len(file.parts) * size} inputs are saved in {file.folder}. Run the"
                " same command again to continue"
            )
            raise
    _print_summary(job, samples, start, [warning.message for warning in caught])


def _facts(job: BulkJob, model: str, weights: str) -> dict[str, Any]:
    """Return everything that the scores depend on, except the inputs."""
    packages = ("whyformer", "torch", "transformers")
    options = {key: repr(value) for key, value in job.settings.items() if key != "method"}
    return {
        "model": model,
        "weights": weights,
        "method": job.settings["method"],
        "options": options,
        "input": job.source,
        "column": job.column,
        "target column": job.target_column,
        "split": job.split,
        "dtype": job.dtype,
        "limit": job.limit,
        "batch size": job.batch_size,
        "skip errors": job.skip,
        "versions": {package: version_of(package) for package in packages},
    }


def _skip_finished(file: ScoreWriter, samples: Iterator[Sample], size: int) -> int:
    """Skip the inputs that an earlier run finished; return how many there are.

    Raise InputError if one has changed since: its scores would belong to another text.
    """
    for rows in file.finished_rows():
        known = {row["id"]: row for row in rows}
        for sample in islice(samples, size):
            row = known.get(sample.id)
            if row is not None and any(
                row[key] != value for key, value in input_columns(sample).items()
            ):
                raise InputError(
                    f"{sample.id!r} has changed since this run began",
                    remedy=f"Delete {str(file.folder)!r} to start again, or name another file with"
                    " --out",
                )
    return len(file.parts) * size


def _check_labels(samples: Iterator[Sample], job: BulkJob) -> Iterator[Sample]:
    """Yield the samples; raise InputError, or skip, if --target-column is empty."""
    for sample in samples:
        if job.target_column is None or sample.label is not None:
            yield sample
            continue
        problem = f"sample {sample.id!r} has no value in the column {job.target_column!r}"
        if not job.skip:
            raise InputError(
                problem,
                remedy="Pass --skip-errors to skip such rows, or leave out --target-column to"
                " explain the prediction",
            )
        warnings.warn(problem, SkippedWarning, stacklevel=2)


def _rows(
    job: BulkJob, loaded: Loaded, samples: Iterator[Sample], start: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the position and the scores of each sample that can be explained."""
    inputs, kept = tee(samples)
    settings = dict(job.settings)
    if job.target_column is not None:
        inputs, labelled = tee(inputs)
        settings["target"] = (sample.label for sample in labelled)
    attributions: Iterator[Attribution] = whyformer.explain(
        inputs,
        loaded,
        batch_size=job.batch_size,
        on_error=job.on_error,
        **settings,
    )
    passed = 0
    for attribution in attributions:
        index = attribution.provenance["index"]
        sample = next(islice(kept, index - passed, None))
        passed = index + 1
        yield start + index, score_row(sample, start + index, attribution)


def _text_lines(file: Path) -> Iterator[DatasetRow]:
    """Yield a row for every line that is not empty."""
    filled = ((spot, line) for spot, line in read_lines(file) if line.strip())
    for number, (spot, line) in enumerate(filled):
        name = f"all/{number}"
        yield DatasetRow(name, spot, partial(_line, name, spot, line))


def _line(name: str, spot: Spot, line: str) -> Sample:
    return Sample(name, require_utf8(line, spot).strip())


def _print_summary(job: BulkJob, samples: Dataset, start: int, messages: list[Any]) -> None:
    """Print what was written, what an earlier run had finished, and what was skipped."""
    skipped = [error.message for error in samples.report.skipped]
    skipped += [str(message) for message in messages if isinstance(message, SkippedWarning)]
    if skipped:
        more = f" and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        note(f"{len(skipped)} inputs were skipped: {'; '.join(skipped[:SHOWN])}{more}")
    doubts = [str(message) for message in messages if isinstance(message, TrustWarning)]
    if doubts:
        note(f"in {len(doubts)} batches, for example: {doubts[0]}")
    before = f" ({start} inputs were finished by an earlier run)" if start else ""
    stderr_console().print(f"wrote {job.out}{before}", soft_wrap=True, markup=False)
