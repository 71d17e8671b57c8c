"""Parquet files of the user."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError


def save(file: Path, **columns: list[Any]) -> Path:
    """The file, in groups of two rows."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), file, row_group_size=2)
    return file


def test_rows_of_all_groups(tmp_path: Path) -> None:
    file = save(tmp_path / "test.parquet", text=list("abcde"), label=[0, 1, 0, None, 1])
    found = open_dataset(f"parquet:{tmp_path}", "test", labels="no|yes")
    assert len(found) == 5
    assert [(s.id, s.inputs, s.label, s.label_name) for s in found][2:4] == [
        ("test/2", "c", 0, "no"),
        ("test/3", "d", None, None),
    ]
    assert len(list(open_dataset(f"parquet:{file}", limit=2, seed=0))) == 2


def test_images_in_the_file(tmp_path: Path) -> None:
    content = io.BytesIO()
    Image.new("RGB", (4, 3)).save(content, "PNG")
    images = [{"bytes": content.getvalue(), "path": None}, {"bytes": b"none", "path": None}]
    file = save(tmp_path / "a.parquet", image=images, label=["cat", "dog"])
    found = open_dataset(f"parquet:{file}", on_error="skip")
    (sample,) = found
    assert (sample.inputs.size, sample.label) == ((4, 3), "cat")
    assert "row 1: 'image' is not an image" in str(found.report)


def test_a_malformed_row_is_told_by_its_number(tmp_path: Path) -> None:
    file = save(tmp_path / "a.parquet", text=["a", None], label=[0, 1])
    with pytest.raises(RowError, match=r"a\.parquet, row 1: 'text' is empty"):
        list(open_dataset(f"parquet:{file}"))


def test_other_files_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "a.parquet").write_text("not parquet", encoding="utf-8")
    with pytest.raises(InputError, match="is not a Parquet file"):
        open_dataset(f"parquet:{tmp_path}/a.parquet")


def test_without_pyarrow_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(InputError, match=r"pyarrow.*pip install .whyformer\[data\]"):
        open_dataset(f"parquet:{tmp_path}/a.parquet")
