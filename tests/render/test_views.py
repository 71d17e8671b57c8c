"""The registry of views: what each of them must offer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from whyformer.attribution import Attribution, views

Make = Callable[..., Attribution]


def test_the_four_views_are_there() -> None:
    assert {"terminal", "html", "png", "json"} <= set(views)


@pytest.mark.parametrize("name", list(views))
def test_every_view_keeps_the_contract(name: str, sentence: Make) -> None:
    view = views[name]
    assert view.name == name
    assert view.title
    assert isinstance(view.render(sentence()), str | bytes)
    assert isinstance(view.render_comparison([sentence(), sentence()]), str | bytes)


@pytest.mark.parametrize("name", list(views))
def test_every_view_is_the_same_twice(name: str, sentence: Make) -> None:
    assert views[name].render(sentence()) == views[name].render(sentence())


def test_attributions_write_their_views(sentence: Make, tmp_path: Path) -> None:
    attribution = sentence()
    attribution.to_html(tmp_path / "why.html")
    attribution.to_png(tmp_path / "why.png")
    attribution.to_json(tmp_path / "why.json")
    assert (tmp_path / "why.html").read_text("utf-8") == attribution.to_html()
    assert (tmp_path / "why.png").read_bytes() == attribution.to_png()
    assert (tmp_path / "why.json").read_text("utf-8") == attribution.to_json()
    assert "gripping" in attribution.to_terminal()
