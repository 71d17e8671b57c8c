"""MoleculeNet CSV files such as BACE: a column of SMILES and columns of measurements."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, dataset
from whyformer.datasets.files import DatasetSource, Record, open_csv

SMILES = ("mol", "smiles")
LABELS = ("inactive", "active")


@dataset(
    "bace",
    title="BACE and other MoleculeNet classification tasks",
    task="text-classification",
    layout="bace.csv with a column mol or smiles and a column Class of 0 and 1",
    licence="MIT (MoleculeNet)",
    paper="Wu et al. 2018; Subramanian et al. 2016 (BACE)",
)
def bace(
    source: DatasetSource, *, smiles: str = "", label: str = "Class", encoding: str = "utf-8"
) -> Contents:
    """Read molecules as SMILES, labelled 0 inactive or 1 active; None if not measured.

    For other files of MoleculeNet, name the column: label="NR-AR", label="p_np".
    """
    found = open_csv(source.find("bace.csv"), encoding=encoding)
    molecule = found.column(*([smiles] if smiles else SMILES))
    column = found.column(label)

    def read(name: str, record: Record) -> Sample:
        row = record.by_column()
        text = row[molecule].strip()
        if not text or any(char.isspace() for char in text):
            raise record.spot.error(f"{molecule} is {text!r}", "a molecule as SMILES")
        value = row[column].strip()
        if not value:
            return Sample(name, text)
        if value not in ("0", "1", "0.0", "1.0"):
            raise record.spot.error(f"{column} is {value!r}", "0, 1 or nothing")
        return Sample(name, text, int(value[0]), LABELS[int(value[0])])

    def rows() -> Iterator[DatasetRow]:
        for number, record in enumerate(found.records()):
            yield DatasetRow(
                source.id(number), record.spot, partial(read, source.id(number), record)
            )

    return Contents(rows, LABELS)
