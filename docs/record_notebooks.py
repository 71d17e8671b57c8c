"""Run the notebooks and keep their outputs in them.

    python docs/record_notebooks.py [NAME ...]

Without names, all of docs/notebooks. Only what a reader sees is kept: no times, no widget state.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"
LARGEST = 300_000  # bytes


def run_notebook(path: Path) -> Any:
    """Return the notebook with the outputs of a run from top to bottom."""
    notebook = nbformat.read(path, as_version=4)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # transformers imports tqdm's bars for notebooks, which say that ipywidgets is not installed.
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
    client = NotebookClient(notebook, timeout=600, record_timing=False)
    client.execute(cwd=str(path.parent))
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}  # without the version of this machine
    return notebook


def main() -> None:
    """Record the notebooks that the command line names, or all."""
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    for name in names:
        path = FOLDER / f"{name}.ipynb"
        text = nbformat.writes(run_notebook(path)) + "\n"
        if len(text.encode()) > LARGEST:
            raise SystemExit(f"{path.name} would have {len(text.encode())} bytes, over {LARGEST}")
        path.write_text(text, encoding="utf-8")
        print(f"{name}: {len(text.encode())} bytes", flush=True)


if __name__ == "__main__":
    main()
