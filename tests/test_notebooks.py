"""The notebooks of the docs run from top to bottom, and their kept outputs are complete."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from docs.record_notebooks import FOLDER, LARGEST, run_notebook

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_eight() -> None:
    assert len(NOTEBOOKS) == 8


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept(path: Path) -> None:
    assert path.stat().st_size <= LARGEST
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
    assert str(Path.home()) + "/" not in path.read_text(encoding="utf-8")
    # The last cell with code shows something.
    assert cells[-1].outputs


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_top_to_bottom(path: Path) -> None:
    found = run_notebook(path)
    for cell in found.cells:
        for output in cell.get("outputs", []):
            # A warning is something that a reader would stumble over.
            assert output.get("name") != "stderr", output["text"]
