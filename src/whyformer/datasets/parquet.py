"""A Parquet file of the user, read in batches with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.csv_table import SPLITS
from whyformer.datasets.dataset import Contents, DatasetRow, Spot, dataset
from whyformer.datasets.files import DatasetSource, import_optional
from whyformer.datasets.tabular import choose_columns, label_names
from whyformer.errors import InputError

AT_ONCE = 256  # rows in memory: they may contain images


@dataset(
    "parquet",
    title="Your own Parquet file with named columns",
    task="any",
    splits=SPLITS,
    layout="a .parquet file, or a folder of train.parquet, dev.parquet, ..., with columns text,"
    " text2, image, label, or others named by options",
    package="pyarrow",
)
def parquet(
    source: DatasetSource,
    *,
    text: str = "",
    text2: str = "",
    image: str = "",
    label: str = "",
    labels: str = "",
) -> Contents:
    """Read one sample per row; an image is a path, or stored in the row as `datasets` does."""
    file = source.find(f"{source.split}.parquet")
    library = import_optional("pyarrow.parquet", f"Reading {file.name}")
    broken = import_optional("pyarrow", f"Reading {file.name}").ArrowException
    try:
        with library.ParquetFile(file) as opened:
            names, count = opened.schema_arrow.names, opened.metadata.num_rows
    except (broken, OSError) as error:
        raise InputError(f"{file} is not a Parquet file ({error})") from error
    asked = {"text": text, "text2": text2, "image": image, "label": label}
    columns = choose_columns(names, file, asked, labels=label_names(labels), folder=file.parent)

    def rows() -> Iterator[DatasetRow]:
        number = 0
        with library.ParquetFile(file) as opened:
            for batch in opened.iter_batches(AT_ONCE, columns=columns.column_names):
                for cells in batch.to_pylist():
                    spot, at = Spot(file, entry=f"row {number}"), source.id(number)
                    yield DatasetRow(at, spot, partial(columns.sample, at, cells, spot))
                    number += 1

    return Contents(rows, columns.labels, count)
