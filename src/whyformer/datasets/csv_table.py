"""Read a CSV or TSV file: a header with the names of the columns, then one sample per row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, dataset
from whyformer.datasets.files import DatasetSource, Record, open_csv
from whyformer.datasets.tabular import COLUMN_OPTIONS, SPLITS, columns_of_file


@dataset(
    "csv",
    title="Your own CSV or TSV with named columns",
    task="any",
    splits=SPLITS,
    layout="a .csv or .tsv file, or a folder of train.csv, dev.csv, ..., with columns text, text2,"
    " image, label, or others named by options",
    shared_options=COLUMN_OPTIONS,
)
def csv_table(
    source: DatasetSource, *, delimiter: str = "", encoding: str = "utf-8", **columns: str
) -> Contents:
    """Read one sample per row; `columns` are COLUMN_OPTIONS."""
    file = source.find(f"{source.split}.csv", f"{source.split}.tsv")
    table = open_csv(file, delimiter or ("\t" if file.suffix == ".tsv" else ","), encoding)
    chosen = columns_of_file(table.columns, file, columns)

    def read(name: str, record: Record) -> Sample:
        return chosen.sample(name, record.by_column(), record.spot)

    def rows() -> Iterator[DatasetRow]:
        for number, record in enumerate(table.records()):
            yield DatasetRow(
                source.id(number), record.spot, partial(read, source.id(number), record)
            )

    return Contents(rows, chosen.labels)
