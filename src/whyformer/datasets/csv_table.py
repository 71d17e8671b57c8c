"""CSV or TSV of the user: a header that names the columns, then one sample per row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, dataset
from whyformer.datasets.files import DatasetSource, Record, open_csv
from whyformer.datasets.tabular import choose_columns, label_names

SPLITS = ("all", "train", "dev", "test", "validation")


@dataset(
    "csv",
    title="Your own CSV or TSV with named columns",
    task="any",
    splits=SPLITS,
    layout="a .csv or .tsv file, or a folder of train.csv, dev.csv, ..., with columns text, text2,"
    " image, label, or others named by options",
)
def csv_table(
    source: DatasetSource,
    *,
    text: str = "",
    text2: str = "",
    image: str = "",
    label: str = "",
    labels: str = "",
    delimiter: str = "",
    encoding: str = "utf-8",
) -> Contents:
    """Read one sample per row; options name the columns, and `labels` the labels: "bad|good"."""
    file = source.find(f"{source.split}.csv", f"{source.split}.tsv")
    between = delimiter or ("\t" if file.suffix == ".tsv" else ",")
    found = open_csv(file, between, encoding)
    asked = {"text": text, "text2": text2, "image": image, "label": label}
    columns = choose_columns(
        found.columns, file, asked, labels=label_names(labels), folder=file.parent
    )

    def read(name: str, record: Record) -> Sample:
        return columns.sample(name, record.by_column(), record.spot)

    def rows() -> Iterator[DatasetRow]:
        for number, record in enumerate(found.records()):
            yield DatasetRow(
                source.id(number), record.spot, partial(read, source.id(number), record)
            )

    return Contents(rows, columns.labels)
