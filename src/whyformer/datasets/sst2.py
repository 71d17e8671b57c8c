"""SST-2 as GLUE publishes it: tab-separated, either column first, with a header or without."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, read_lines, require_utf8
from whyformer.errors import InputError

LABELS = ("negative", "positive")
TEXT = ("sentence", "content", "text")
HEADER = {*TEXT, "label", "index"}
HIDDEN = "-1"  # some copies write this for the hidden labels of GLUE
LINES_INSPECTED = 200


@dataset(
    "sst2",
    title="Stanford Sentiment Treebank, sentences and phrases, as in GLUE",
    task="text-classification",
    splits=("dev", "test", "train"),
    layout="train.tsv, dev.tsv and test.tsv in one folder, a text and a 0 or 1 between tabs",
    licence="none stated; research use",
    paper="Socher et al. 2013; Wang et al. 2019 (GLUE)",
)
def sst2(source: DatasetSource, *, encoding: str = "utf-8") -> Contents:
    """Read sentences, labelled 0 negative or 1 positive; the test file of GLUE has no labels."""
    file = source.find(f"{source.split}.tsv")
    columns, text, label = _columns(file, encoding)

    def read(name: str, spot: Spot, line: str) -> Sample:
        cells = require_utf8(line, spot).split("\t")
        if len(cells) != columns:
            raise spot.error(f"{len(cells)} cells", f"{columns} cells with a tab between them")
        sentence = cells[text].strip()
        if not sentence:
            raise spot.error("the sentence is empty", "a text")
        value = HIDDEN if label is None else cells[label].strip()
        if value == HIDDEN:
            return Sample(name, sentence)
        if value not in ("0", "1"):
            raise spot.error(f"the label is {value!r}", "0 (negative) or 1 (positive)")
        return Sample(name, sentence, int(value), LABELS[int(value)])

    def rows() -> Iterator[DatasetRow]:
        found = ((spot, line) for spot, line in read_lines(file, encoding) if line.strip())
        for number, (spot, line) in enumerate(_skip_header(found)):
            yield DatasetRow(source.id(number), spot, partial(read, source.id(number), spot, line))

    return Contents(rows, LABELS)


def _is_header(line: str) -> bool:
    return {cell.strip().lower() for cell in line.split("\t")} <= HEADER


def _skip_header(found: Iterator[tuple[Spot, str]]) -> Iterator[tuple[Spot, str]]:
    for number, (spot, line) in enumerate(found):
        if number or not _is_header(line):
            yield spot, line


def _columns(file: Path, encoding: str) -> tuple[int, int, int | None]:
    """The number of columns, and the indices of the text and the label."""
    start = [
        line.split("\t") for _, line in islice(read_lines(file, encoding), LINES_INSPECTED) if line
    ]
    if not start:
        raise InputError(f"{file} is empty; expected lines of a text and a label")
    names = [cell.strip().lower() for cell in start[0]]
    if set(names) <= HEADER and (found := [names.index(n) for n in TEXT if n in names]):
        return len(names), found[0], names.index("label") if "label" in names else None
    # No header: the column of 0 and 1 has the labels.
    for label, text in ((0, 1), (1, 0)):
        cells = [row[label].strip() for row in start if len(row) == 2]
        if cells and sum(cell in ("0", "1", HIDDEN) for cell in cells) > len(cells) / 2:
            return 2, text, label
    raise InputError(
        f"{file}: found no column of labels 0 and 1 beside a column of texts in the first"
        f" {len(start)} lines. Expected lines of a text, a tab and 0 or 1, in either order"
    )
