"""JSON lines of the user: one object per line, with its keys as columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.csv_table import SPLITS
from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, parse_line, read_lines
from whyformer.datasets.tabular import choose_columns, label_names
from whyformer.errors import InputError


@dataset(
    "jsonl",
    title="Your own JSON lines with named keys",
    task="any",
    splits=SPLITS,
    layout="a .jsonl file, or a folder of train.jsonl, dev.jsonl, ..., one object per line with"
    " text, text2, image, label, or others named by options",
)
def jsonl(
    source: DatasetSource,
    *,
    text: str = "",
    text2: str = "",
    image: str = "",
    label: str = "",
    labels: str = "",
    encoding: str = "utf-8",
) -> Contents:
    """Read one sample per line; the first object defines the keys."""
    file = source.find(f"{source.split}.jsonl", f"{source.split}.json")
    first = next(((spot, line) for spot, line in read_lines(file, encoding) if line.strip()), None)
    if first is None:
        raise InputError(f"{file} is empty; expected one JSON object per line")
    keys = [*parse_line(first[1], first[0])]
    asked = {"text": text, "text2": text2, "image": image, "label": label}
    columns = choose_columns(keys, file, asked, labels=label_names(labels), folder=file.parent)

    def read(name: str, spot: Spot, line: str) -> Sample:
        row = parse_line(line, spot)
        if columns.label and not isinstance(row.get(columns.label), str | int | float | None):
            raise spot.error(f"{columns.label!r} is not a label", "a number or a name")
        return columns.sample(name, row, spot)

    def rows() -> Iterator[DatasetRow]:
        found = ((spot, line) for spot, line in read_lines(file, encoding) if line.strip())
        for number, (spot, line) in enumerate(found):
            yield DatasetRow(source.id(number), spot, partial(read, source.id(number), spot, line))

    return Contents(rows, columns.labels)
