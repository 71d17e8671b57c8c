"""`whyformer explain --input FILE --out FILE`: explain every row of a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from whyformer.batching.progress import Progress
from whyformer.batching.series import window_size
from whyformer.cli.bulk_work import ExplainTask, Window, WindowScores
from whyformer.cli.console import note, print_written
from whyformer.cli.files import OutputError, check_writable
from whyformer.cli.progress import progress_bar
from whyformer.cli.score_writer import ScoreWriter, format_of, input_columns
from whyformer.datasets import Contents, Dataset, DatasetRow, Sample, Spot, open_dataset
from whyformer.datasets.files import read_lines, require_utf8
from whyformer.errors import InputError, OptionError, SkippedWarning
from whyformer.evaluation import code_version, fingerprint
from whyformer.inputs.detect import kind_of
from whyformer.methods import methods
from whyformer.models.load import Loaded, load_model
from whyformer.models.versions import version_of
from whyformer.workers import Chunk, Engine, EngineError, EngineOptions, Failure, open_engine

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
    engine: EngineOptions = field(default_factory=EngineOptions)

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
        if self.split is not None:
            raise OptionError(
                f"--split {self.split!r} chooses a part of a dataset, and {self.source!r} is one"
                " file",
                remedy="Leave out --split, or name the folder, as in --input csv:FOLDER",
            )
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
        weights = fingerprint.of_loaded(loaded)
        file = ScoreWriter(out, _facts(job, loaded.name, weights))
        run = _BulkRun(job, file, window_size(job.batch_size), len(samples))
        try:
            for done in run.explain(chain([first], reading), loaded, weights):
                report(Progress("explaining", done, run.total))
            file.finish(run.windows)
        except KeyboardInterrupt:
            note(
                f"interrupted: {run.done} inputs are saved in {file.folder}. Run the same command"
                " again to continue"
            )
            raise
        finally:
            file.close()
    run.skipped += [str(warning.message) for warning in caught]
    _print_summary(job, samples, run)


@dataclass
class _BulkRun:
    """A bulk explanation under way: which windows there are, and what was said about them."""

    job: BulkJob
    file: ScoreWriter
    size: int
    total: int
    windows: int = 0
    done: int = 0
    before: int = 0  # rows of windows that an earlier run finished
    written: int = 0  # rows without the skipped ones
    skipped: list[str] = field(default_factory=list)
    doubts: int = 0
    doubt: str = ""
    failed: list[str] = field(default_factory=list)
    _lost: list[tuple[int, Window, Failure]] = field(default_factory=list)
    _open: dict[str, tuple[int, Window]] = field(default_factory=dict)

    def explain(self, samples: Iterator[Sample], loaded: Loaded, weights: str) -> Iterator[int]:
        """Write a part for every window; yield the number of finished rows."""
        job = self.job
        in_process = job.engine.engine == "local" and job.engine.workers == 1
        # Alone, this process may use all its threads; several workers get one each.
        threads = torch.get_num_threads() if in_process else job.engine.threads
        engine = open_engine(replace(job.engine, threads=threads))
        settings = {**job.settings, "batch_size": job.batch_size, "on_error": job.on_error}
        source = None if in_process else loaded.source
        task = ExplainTask(source or loaded, weights, settings, job.target_column is not None)
        count = max(1, -(-self.total // self.size))
        for finished in engine.run(task, self._chunks(samples), count):
            number, window = self._open.pop(finished.name)
            if finished.failure is not None:
                self._lost.append((number, window, finished.failure))
                continue
            self._finish(number, len(window.samples), finished.result)
            yield self.done
        # A window whose worker died is explained again row by row: one of them is to blame.
        for number, window, _ in self._lost:
            self._finish(number, len(window.samples), self._one_by_one(engine, task, window))
            yield self.done
        if self.failed and not job.skip:
            raise EngineError(
                f"{len(self.failed)} inputs could not be explained:"
                f" {'; '.join(self.failed[:SHOWN])}",
                argument="on_error",
                remedy=f"Other rows are saved in {str(self.file.folder)!r}",
            )
        self.skipped += self.failed

    def _chunks(self, samples: Iterator[Sample]) -> Iterator[Chunk]:
        """The windows that are not finished; raise InputError if a finished row has changed."""
        while window := list(islice(samples, self.size)):
            number = self.windows
            self.windows += 1
            rows = self.file.finished_rows(number)
            if rows is None:
                chunk = Chunk(str(number), Window(number * self.size, window))
                self._open[chunk.name] = (number, chunk.payload)
                yield chunk
                continue
            _check_unchanged(rows, window, self.file)
            self.done += len(window)
            self.before += len(window)
            self.written += len(rows)

    def _one_by_one(self, engine: Engine, task: ExplainTask, window: Window) -> WindowScores:
        """The scores of the rows of a window that do not harm their worker."""
        alone = {str(one.start): one for one in window.alone()}
        chunks = (Chunk(name, one) for name, one in alone.items())
        rows: list[Any] = []
        skipped: list[str] = []
        doubts: list[str] = []
        before = len(self.failed)
        for finished in engine.run(task, chunks, len(alone)):
            if finished.failure is not None:
                name = alone[finished.name].samples[0].id
                self.failed.append(f"{name!r} ({finished.failure.error})")
                continue
            found: WindowScores = finished.result
            if found.error is not None:
                return found
            rows += found.rows
            skipped += found.skipped
            doubts += found.doubts
        rows.sort(key=lambda row: row["index"])
        return WindowScores(rows, skipped, doubts, is_complete=len(self.failed) == before)

    def _finish(self, number: int, rows: int, scores: WindowScores) -> None:
        if scores.error is not None:
            raise scores.error
        # With rows missing the part is not finished: the next run tries them again.
        if scores.is_complete or self.job.skip:
            self.file.add(number, scores.rows)
            self.written += len(scores.rows)
        self.done += rows
        self.skipped += scores.skipped
        self.doubts += len(scores.doubts)
        self.doubt = self.doubt or next(iter(scores.doubts), "")


def _check_unchanged(
    rows: Sequence[dict[str, Any]], window: Sequence[Sample], file: ScoreWriter
) -> None:
    """Raise InputError if a row has changed: its scores would belong to another text."""
    known = {row["id"]: row for row in rows}
    for sample in window:
        row = known.get(sample.id)
        if row is not None and any(
            row[key] != value for key, value in input_columns(sample).items()
        ):
            raise InputError(
                f"{sample.id!r} has changed since this run began",
                remedy=f"Delete {str(file.folder)!r} to start again, or name another file with"
                " --out",
            )


def _facts(job: BulkJob, model: str, weights: str) -> dict[str, Any]:
    """Return everything that the scores depend on, except the inputs."""
    packages = ("whyformer", "torch", "transformers")
    options = {key: repr(value) for key, value in job.settings.items() if key != "method"}
    code = methods[job.settings["method"]].compute
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
        "code": f"{code_version.of_shared_code()} {code_version.of_function(code)}",
        "versions": {package: version_of(package) for package in packages},
    }


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


def _text_lines(file: Path) -> Iterator[DatasetRow]:
    """Yield a row for every line that is not empty."""
    filled = ((spot, line) for spot, line in read_lines(file) if line.strip())
    for number, (spot, line) in enumerate(filled):
        name = f"all/{number}"
        yield DatasetRow(name, spot, partial(_line, name, spot, line))


def _line(name: str, spot: Spot, line: str) -> Sample:
    return Sample(name, require_utf8(line, spot).strip())


def _print_summary(job: BulkJob, samples: Dataset, run: _BulkRun) -> None:
    """Print what was written, what an earlier run had finished, and what was skipped."""
    skipped = [error.message for error in samples.report.skipped] + run.skipped
    if skipped:
        more = f" and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        note(f"{len(skipped)} inputs were skipped: {'; '.join(skipped[:SHOWN])}{more}")
    if run.doubts:
        note(f"in {run.doubts} batches, for example: {run.doubt}")
    before = f", {run.before} of them finished by an earlier run" if run.before else ""
    print_written(job.out, f" ({run.written} inputs{before})")
