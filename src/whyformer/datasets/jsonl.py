"""Read JSON lines: one object per line, with its keys as columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, parse_line, read_lines
from whyformer.datasets.tabular import COLUMN_OPTIONS, SPLITS, columns_of_file
from whyformer.errors import InputError


@dataset(
    "jsonl",
    title="Your own JSON lines with named keys",
    task="any",
    splits=SPLITS,
    layout="a .jsonl file, or a folder of train.jsonl, dev.jsonl, ..., one object per line with"
    " text, text2, image, label, or others named by options",
    shared_options=COLUMN_OPTIONS,
)
def jsonl(source: DatasetSource, *, encoding: str = "utf-8", **columns: str) -> Contents:
    """Read one sample per line; `columns` are COLUMN_OPTIONS. The first object defines the keys."""
    file = source.find(f"{source.split}.jsonl", f"{source.split}.json")
    first = next(((spot, line) for spot, line in read_lines(file, encoding) if line.strip()), None)
    if first is None:
        raise InputError(f"{file} is empty; expected one JSON object per line")
    keys = [*parse_line(first[1], first[0])]
    chosen = columns_of_file(keys, file, columns)

    def read(name: str, spot: Spot, line: str) -> Sample:
        row = parse_line(line, spot)
        if chosen.label and not isinstance(row.get(chosen.label), str | int | float | None):
            raise spot.error(f"{chosen.label!r} is not a label", "a number or a name")
        return chosen.sample(name, row, spot)

    def rows() -> Iterator[DatasetRow]:
        found = ((spot, line) for spot, line in read_lines(file, encoding) if line.strip())
        for number, (spot, line) in enumerate(found):
            yield DatasetRow(source.id(number), spot, partial(read, source.id(number), spot, line))

    return Contents(rows, chosen.labels)
