"""Read a Parquet file with pyarrow, a few hundred rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from whyformer.datasets.dataset import Contents, DatasetRow, Spot, dataset
from whyformer.datasets.files import DatasetSource, import_optional
from whyformer.datasets.foreign_errors import reading, rows_until_damage
from whyformer.datasets.tabular import COLUMN_OPTIONS, SPLITS, columns_of_file

AT_ONCE = 256  # rows in memory: they may contain images


@dataset(
    "parquet",
    title="Your own Parquet file with named columns",
    task="any",
    splits=SPLITS,
    layout="a .parquet file, or a folder of train.parquet, dev.parquet, ..., with columns text,"
    " text2, image, label, or others named by options",
    package="pyarrow",
    shared_options=COLUMN_OPTIONS,
)
def parquet(source: DatasetSource, **columns: str) -> Contents:
    """Read one sample per row; `columns` are COLUMN_OPTIONS.

    An image is a path, or is stored in the row as the library `datasets` does.
    """
    file = source.find(f"{source.split}.parquet")
    library = import_optional("pyarrow.parquet", f"Reading {file.name}")
    with reading(file, "a Parquet file"), library.ParquetFile(file) as table:
        names, count = table.schema_arrow.names, table.metadata.num_rows
        if count < 0:
            raise ValueError(f"it states {count} rows")
    chosen = columns_of_file(names, file, columns)

    def spot(number: int) -> Spot:
        return Spot(file, entry=f"row {number}")

    def row(number: int, cells: dict[str, Any]) -> DatasetRow:
        at = source.id(number)
        return DatasetRow(at, spot(number), partial(chosen.sample, at, cells, spot(number)))

    def cells() -> Iterator[dict[str, Any]]:
        with library.ParquetFile(file) as table:
            for batch in table.iter_batches(AT_ONCE, columns=chosen.column_names):
                yield from batch.to_pylist()

    def rows() -> Iterator[DatasetRow]:
        return rows_until_damage(cells(), spot, row)

    return Contents(rows, chosen.labels, count)
