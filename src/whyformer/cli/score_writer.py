"""Scores of many inputs in one file, written in parts so that an interrupted run can continue.

During a run, the parts are in a folder next to the file. A part is written completely or not at
all, and holds the same inputs in every run, so that the finished file is always the same. The
folder belongs to one run at a time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from whyformer.attribution import Attribution, Stream
from whyformer.cli.files import OutputError
from whyformer.datasets import Sample
from whyformer.storage.atomic_write import write_atomically
from whyformer.storage.folder_lock import FolderLock

Row = dict[str, Any]
Result = TypeVar("Result")
FACTS = "facts.json"
SUM = ".sha256"  # the file with a part's checksum, written after the part


def score_row(sample: Sample, index: int, attribution: Attribution) -> Row:
    """Return the output row of one sample: its input, target, scores and words."""
    main = attribution.streams[attribution.main]
    words = attribution.words() if main.tokens is not None else None
    conservation = attribution.conservation
    chance = None if attribution.probability is None else float(attribution.probability[0])
    return {
        "index": index,
        "id": sample.id,
        **input_columns(sample),
        "target": int(attribution.target[0]),
        "target_label": attribution.labels[0],
        "output": float(attribution.output[0]),
        "probability": chance if chance == chance else None,  # NaN if the target has none
        "conservation": None if conservation is None else float(conservation[0]),
        "trust": attribution.trust.verdict,
        "trust_reasons": attribution.trust.summary,
        "method": attribution.method,
        **_stream_columns(main),
        "words": words and [word for word, _ in words],
        "word_scores": words and [score for _, score in words],
        "others": [
            _stream_columns(s) for name, s in attribution.streams.items() if name != main.name
        ],
    }


def input_columns(sample: Sample) -> Row:
    """Return the columns `text`, `text2` and `image` of a sample."""
    inputs = sample.inputs
    parts = dict(inputs) if isinstance(inputs, Mapping) else {"text": inputs}
    texts = parts.get("text")
    pair = texts if isinstance(texts, tuple) else (texts, None)
    image = next((p for p in (*parts.values(), inputs) if isinstance(p, Path)), None)
    return {
        "text": pair[0] if isinstance(pair[0], str) else None,
        "text2": pair[1],
        "image": None if image is None else str(image),
    }


def _stream_columns(stream: Stream) -> Row:
    return {
        "stream": stream.name,
        "tokens": stream.tokens and list(stream.tokens[0]),
        "scores": stream.scores[0].tolist(),
        "grid": stream.grid and list(stream.grid),
    }


@dataclass(frozen=True)
class FileFormat:
    """How to write rows to a part, read them back, and join parts to the file."""

    write: Callable[[Sequence[Row], Path, str], None]
    read: Callable[[Path], Iterator[Row]]
    join: Callable[[Sequence[Path], Path, str], None]


class ScoreWriter:
    """Writes the rows of one run to a file, part by part."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        """Raise OutputError if parts exist that were made with other `facts`."""
        self.path = path
        self.format = format_of(path)
        self.facts = json.dumps(facts, indent=2, sort_keys=True, default=str)
        self.folder = path.with_name(f"{path.name}.parts")
        self._lock = FolderLock(self.folder)
        self.sums: dict[str, str] = {}
        if self.folder.is_dir() and self._acquire():
            try:
                self.sums = self._read_sums()
            except OutputError:
                self.close()
                raise

    def _read_sums(self) -> dict[str, str]:
        """The checksums of finished parts; raise OutputError if they belong to another run."""
        files = self.folder.glob(f"*{SUM}")
        sums = {file.name.removesuffix(SUM): _read_text(file) for file in files}
        if sums:
            self._check_facts()
        return sums

    def _check_facts(self) -> None:
        before, now = _read_facts(self.folder / FACTS), json.loads(self.facts)
        # The code of another method differs too: the first difference to name is the method.
        for key in sorted(set(before) | set(now), key=lambda key: (key == "code", key)):
            if before.get(key) != now.get(key):
                raise OutputError(
                    f"{str(self.folder)!r} holds parts of another run, whose {key} was"
                    f" {before.get(key)!r} and not {now.get(key)!r}",
                    remedy="Delete the folder, or name another file with --out",
                )

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:06d}{self.path.suffix}"

    def finished_rows(self, number: int) -> list[Row] | None:
        """Return the rows of a part that an earlier run finished; None if it is not sound."""
        part = self._part(number)
        if part.name not in self.sums:
            return None
        try:
            content = part.read_bytes()
            if hashlib.sha256(content).hexdigest() != self.sums[part.name]:
                return None
            return list(self.format.read(part))
        except (OSError, ValueError):
            return None

    def add(self, number: int, rows: Sequence[Row]) -> None:
        """Write a part, then its checksum."""
        self._take_folder()
        part = self._part(number)
        self._replace(part, lambda temporary: self.format.write(rows, temporary, self.facts))
        found = self._report_os_errors(lambda: hashlib.sha256(part.read_bytes()).hexdigest())
        self._replace(
            part.with_name(f"{part.name}{SUM}"), lambda temporary: _write_text(temporary, found)
        )
        self.sums[part.name] = found

    def _take_folder(self) -> None:
        """Make the folder if it is missing, and write what this run depends on before its parts."""
        if not self._lock.is_held:
            if self.sums:
                raise OutputError(
                    f"{str(self.folder)!r} was deleted during the run",
                    remedy="Run the same command again",
                )
            self._report_os_errors(lambda: self.folder.mkdir(exist_ok=True))
            while not self._acquire():
                self._report_os_errors(lambda: self.folder.mkdir(exist_ok=True))
            self._read_sums()
        if not self.sums:  # without finished parts, the facts may be those of another run
            self._replace(self.folder / FACTS, lambda temporary: _write_text(temporary, self.facts))

    def _acquire(self) -> bool:
        """Lock the folder; return False if another run ended just now and has deleted it.

        Raise OutputError if another run writes to it.
        """

        def acquire() -> bool | None:
            try:
                return self._lock.acquire()
            except FileNotFoundError:
                return None

        is_ours = self._report_os_errors(acquire)
        if is_ours is False:
            raise OutputError(
                f"another run is writing to {str(self.folder)!r}",
                remedy="Wait until it has ended, or name another file with --out",
            )
        return is_ours is True

    def finish(self, count: int) -> None:
        """Join the first parts to the file and delete all of them."""
        self._take_folder()
        parts = [self._part(number) for number in range(count)]
        self._replace(self.path, lambda temporary: self.format.join(parts, temporary, self.facts))
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def close(self) -> None:
        """Let other runs write to the folder."""
        self._lock.release()

    def _replace(self, path: Path, writer: Callable[[Path], None]) -> None:
        """Write a file atomically; the temporary file is in the folder of the parts."""
        self._report_os_errors(lambda: write_atomically(path, writer, self.folder))

    def _report_os_errors(self, act: Callable[[], Result]) -> Result:
        try:
            return act()
        except OSError as error:
            raise OutputError(
                f"--out {str(self.path)!r} cannot be written: {error.strerror or error}",
                remedy=f"Finished rows are saved in {str(self.folder)!r}. Free some space and run"
                " the same command again to continue",
            ) from error


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


def _read_facts(file: Path) -> dict[str, Any]:
    """Return the facts that the parts were made with; empty if they cannot be read."""
    try:
        facts: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts


def format_of(path: Path) -> FileFormat:
    """Return the format of a file by its suffix."""
    if path.suffix.lower() not in FORMATS:
        raise OutputError(
            f"--out {str(path)!r} has an unknown suffix",
            remedy=f"Name a file that ends in {' or '.join(FORMATS)}",
        )
    return FORMATS[path.suffix.lower()]


# -- JSON lines ------------------------------------------------------------------------------------


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_lines(rows: Sequence[Row], path: Path, facts: str) -> None:
    _write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _read_lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _join_lines(parts: Sequence[Path], path: Path, facts: str) -> None:
    with path.open("wb") as whole:
        for part in parts:
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, whole)


# -- Parquet ---------------------------------------------------------------------------------------


def _write_parquet(rows: Sequence[Row], path: Path, facts: str) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist(list(rows), schema=_schema(facts))
    parquet.write_table(table, path, compression="zstd")


def _read_parquet(path: Path) -> Iterator[Row]:
    from pyarrow import parquet

    yield from parquet.read_table(path).to_pylist()


def _join_parquet(parts: Sequence[Path], path: Path, facts: str) -> None:
    """Copy one part at a time, each as a row group, to keep memory small."""
    from pyarrow import parquet

    with parquet.ParquetWriter(path, _schema(facts), compression="zstd") as whole:
        for part in parts:
            whole.write_table(parquet.read_table(part, schema=_schema(facts)))


def _schema(facts: str) -> Any:
    import pyarrow as pa

    numbers, names = pa.list_(pa.float64()), pa.list_(pa.string())
    scored = {
        "stream": pa.string(),
        "tokens": names,
        "scores": numbers,
        "grid": pa.list_(pa.int64()),
    }
    columns = {
        "index": pa.int64(),
        "id": pa.string(),
        "text": pa.string(),
        "text2": pa.string(),
        "image": pa.string(),
        "target": pa.int64(),
        "target_label": pa.string(),
        "output": pa.float64(),
        "probability": pa.float64(),
        "conservation": pa.float64(),
        "trust": pa.string(),
        "trust_reasons": pa.string(),
        "method": pa.string(),
        **scored,
        "words": names,
        "word_scores": numbers,
        "others": pa.list_(pa.struct(list(scored.items()))),
    }
    return pa.schema(list(columns.items()), metadata={"whyformer": facts})


FORMATS = {
    ".parquet": FileFormat(_write_parquet, _read_parquet, _join_parquet),
    ".jsonl": FileFormat(_write_lines, _read_lines, _join_lines),
}
