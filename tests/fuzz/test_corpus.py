"""Past finds: each is refused or read in time, without an error of another library.

A folder of tests/fuzz/corpus/SURFACE is one case. `python -m tests.fuzz.fuzz --seed SEED --only
NUMBER --keep tests/fuzz/corpus` adds one; give its folder a name that says what was wrong.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fuzz.surfaces import SURFACES
from whyformer.errors import WhyformerError

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(
    f"{place.parent.name}/{place.name}" for place in CORPUS.glob("*/*") if place.is_dir()
)


@pytest.mark.parametrize("case", CASES)
def test_a_past_find_is_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are damaged so that they cannot be read, except requests, which are answered."""
    folder = tmp_path / "case"
    shutil.copytree(CORPUS / case, folder)
    monkeypatch.chdir(folder)
    surface = case.partition("/")[0]
    if surface.startswith("http"):
        SURFACES[surface].read(folder)
    else:
        with pytest.raises(WhyformerError):
            SURFACES[surface].read(folder)


def test_every_kind_of_surface_has_a_find() -> None:
    kinds = {case.partition("/")[0] for case in CASES}
    assert kinds <= SURFACES.keys()
    assert len(CASES) >= 12
