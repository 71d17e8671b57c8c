"""Pictures look as they did when somebody last looked at them."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib
import pytest

from tests.render.goldens import FOLDER, NEAR, PICTURES, UNLIKE, image, small, stored, text, unlike
from whyformer.attribution import views
from whyformer.render.picture.figure import figure

ANEW = "; if that is meant: PYTHONPATH=src python -m tests.render.goldens, and look at them"


@pytest.mark.parametrize("name", list(PICTURES))
def test_a_picture_is_as_it_was(name: str) -> None:
    drawn, before = small(PICTURES[name]()), stored(name)
    sides = zip(drawn.size, before.size, strict=True)
    assert all(abs(now - then) <= NEAR for now, then in sides), f"{name} has another size{ANEW}"
    share = unlike(drawn, before)
    assert share <= UNLIKE, f"{share:.2%} of {name} has another colour{ANEW}"


def test_every_stored_picture_is_looked_at_and_small() -> None:
    files = {path.stem: path.stat().st_size for path in FOLDER.glob("*")}
    assert set(files) == set(PICTURES)
    assert max(files.values()) < 50_000


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("words", lambda: views["png"].render(text(sign=-1.0))),
        ("words", PICTURES["subwords"]),
        ("image", lambda: views["png"].render(image(spot=(1, 1), signed=True))),
        ("image", lambda: views["png"].render(image(spot=(1, 2), signed=False))),
        ("methods_by_words", lambda: figure([[text()], [text("attn_lrp", 2.0)]]).file()),
    ],
)
def test_a_picture_of_something_else_is_noticed(name: str, wrong: Callable[[], bytes]) -> None:
    assert unlike(small(wrong()), stored(name)) > 2 * UNLIKE


@pytest.mark.parametrize("hinting", ["none", "force_autohint"])
def test_letters_may_differ_by_a_hair(hinting: str) -> None:
    with matplotlib.rc_context({"text.hinting": hinting}):
        assert unlike(small(PICTURES["words"]()), stored("words")) <= UNLIKE
