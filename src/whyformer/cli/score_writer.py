"""Scores of many inputs in one file, a row each: made of parts, so that a killed run goes on.

While a run lasts, its parts lie in a folder beside the file. Each is whole or not there, and holds
the same inputs in every run, so that the file ends with the same rows whatever happened.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.attribution import Attribution, Stream
from whyformer.cli.files import OutputError
from whyformer.datasets import Sample
from whyformer.evaluation.atomic_write import write_atomically

Row = dict[str, Any]
FACTS = "facts.json"


def score_row(sample: Sample, index: int, attribution: Attribution) -> Row:
    """One sample's scores and what they are about, in plain values."""
    main = attribution.streams[attribution.main]
    words = attribution.words() if main.tokens is not None else None
    held = attribution.conservation
    return {
        "index": index,
        "id": sample.id,
        **input_columns(sample),
        "target": int(attribution.target[0]),
        "target_label": attribution.labels[0],
        "output": float(attribution.output[0]),
        "conservation": None if held is None else float(held[0]),
        "method": attribution.method,
        **_stream_columns(main),
        "words": words and [word for word, _ in words],
        "word_scores": words and [score for _, score in words],
        "others": [
            _stream_columns(s) for name, s in attribution.streams.items() if name != main.name
        ],
    }


def input_columns(sample: Sample) -> Row:
    """What a sample is, as far as a table can hold it."""
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
    """A kind of file: how rows are written to a part, read back, and parts become the file."""

    write: Callable[[Sequence[Row], Path, str], None]
    read: Callable[[Path], Iterator[Row]]
    join: Callable[[Sequence[Path], Path, str], None]


class ScoreWriter:
    """The rows of one run on their way into a file."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        """`facts` are what decides the rows: parts that were made with others are refused."""
        self.path = path
        self.form = format_of(path)
        self.facts = json.dumps(facts, indent=2, sort_keys=True, default=str)
        self.folder = path.with_name(f"{path.name}.parts")
        self.parts: list[Path] = []
        while (part := self._part(len(self.parts))).is_file():
            self.parts.append(part)
        if self.parts:
            self._check_facts()

    def _check_facts(self) -> None:
        before, now = _facts(self.folder / FACTS), json.loads(self.facts)
        for key in sorted(set(before) | set(now)):
            if before.get(key) != now.get(key):
                raise OutputError(
                    f"{str(self.folder)!r} holds the beginning of another run, whose {key} was"
                    f" {before.get(key)!r} and not {now.get(key)!r}: delete the folder, or name"
                    " another file with --out"
                )

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:06d}{self.path.suffix}"

    def done(self) -> Iterator[list[Row]]:
        """The rows of each part that an earlier run has finished."""
        for part in self.parts:
            try:
                yield list(self.form.read(part))
            except (OSError, ValueError) as error:
                raise OutputError(
                    f"{str(part)!r}, a part of an earlier run, cannot be read"
                    f" ({str(error).splitlines()[0]}): delete it, and the run goes on before it"
                ) from error

    def add(self, rows: Sequence[Row]) -> None:
        """Keeps the rows of the next part, at once and for good."""
        if not self.parts:
            self._safely(lambda: self.folder.mkdir(exist_ok=True))
            self._replace(self.folder / FACTS, lambda beside: _text(beside, self.facts))
        part = self._part(len(self.parts))
        self._replace(part, lambda beside: self.form.write(rows, beside, self.facts))
        self.parts.append(part)

    def finish(self) -> None:
        """Makes the file of its parts, and takes them away."""
        self._replace(self.path, lambda beside: self.form.join(self.parts, beside, self.facts))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _replace(self, path: Path, writer: Callable[[Path], None]) -> None:
        """Writes among the parts, down to the disk, and then takes the file's place."""
        self._safely(lambda: write_atomically(path, writer, self.folder))

    def _safely(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            raise OutputError(
                f"--out {str(self.path)!r} cannot be written: {error.strerror or error}. What is"
                f" finished is kept in {str(self.folder)!r}: make room, and give the same command"
                " again to go on"
            ) from error


def _facts(file: Path) -> dict[str, Any]:
    """What the parts beside the file were made with; nothing where that is lost."""
    try:
        facts: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts


def format_of(path: Path) -> FileFormat:
    """The kind of file that a name asks for."""
    if path.suffix.lower() not in FORMS:
        raise OutputError(f"--out {str(path)!r}: name a file that ends in {' or '.join(FORMS)}")
    return FORMS[path.suffix.lower()]


# -- JSON lines ------------------------------------------------------------------------------------


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_lines(rows: Sequence[Row], path: Path, facts: str) -> None:
    _text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


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
    """One part in memory at a time, each a row group."""
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
        "conservation": pa.float64(),
        "method": pa.string(),
        **scored,
        "words": names,
        "word_scores": numbers,
        "others": pa.list_(pa.struct(list(scored.items()))),
    }
    return pa.schema(list(columns.items()), metadata={"whyformer": facts})


FORMS = {
    ".parquet": FileFormat(_write_parquet, _read_parquet, _join_parquet),
    ".jsonl": FileFormat(_write_lines, _read_lines, _join_lines),
}
