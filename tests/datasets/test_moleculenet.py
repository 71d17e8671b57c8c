"""BACE and other files of MoleculeNet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError


@pytest.mark.parametrize("column", ["mol", "smiles"])
def test_molecules_and_classes(write: Write, column: str) -> None:
    path = write({"bace.csv": f"{column},CID,Class,Model\nO1CC[C@@H]1,BACE_1,1,Train\nCC,B,0,T\n"})
    found = open_dataset(f"bace:{path}")
    assert [(s.id, s.inputs, s.label, s.label_name) for s in found] == [
        ("all/0", "O1CC[C@@H]1", 1, "active"),
        ("all/1", "CC", 0, "inactive"),
    ]


def test_other_tasks_may_lack_a_measurement(write: Write) -> None:
    path = write({"tox21.csv": "NR-AR,smiles\n0.0,CC\n,CO\n"}) / "tox21.csv"
    assert [s.label for s in open_dataset(f"bace:{path}", label="NR-AR")] == [0, None]


@pytest.mark.parametrize("row", ["CC,2", "C C,1", ",1", "CC"])
def test_a_malformed_row_is_told_by_its_line(write: Write, row: str) -> None:
    path = write({"bace.csv": f"mol,Class\n{row}\n"})
    with pytest.raises(RowError, match=r"bace\.csv, line 2"):
        list(open_dataset(f"bace:{path}"))


def test_a_missing_column_is_named(write: Write) -> None:
    path = write({"bace.csv": "mol,pIC50\nCC,7.1\n"})
    with pytest.raises(InputError, match="no column 'Class'"):
        open_dataset(f"bace:{path}")


@pytest.mark.data
def test_the_published_counts(data: Path) -> None:
    found = open_dataset(f"bace:{data}/bace")
    assert Counter(s.label_name for s in found) == {"inactive": 822, "active": 691}
    assert next(iter(found)).inputs.startswith("O1CC[C@@H](NC(=O)")
