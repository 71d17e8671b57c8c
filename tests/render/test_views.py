"""The registry of views: what each of them must offer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import whyformer.render.views as view_folder
from whyformer.attribution import Attribution, file_views, views
from whyformer.cli.app import application
from whyformer.compare import Comparison
from whyformer.errors import InputError, OptionError, UnknownNameError
from whyformer.explorer.catalogue import Catalogue
from whyformer.explorer.limits import Limits
from whyformer.explorer.page import page

Make = Callable[..., Attribution]


def test_the_four_views_are_there() -> None:
    assert {"terminal", "html", "png", "json"} <= set(views)


@pytest.mark.parametrize("name", list(views))
def test_every_view_keeps_the_contract(name: str, sentence: Make) -> None:
    view = views[name]
    assert view.name == name
    assert view.title
    assert view.suffix in ("", f".{name}")
    assert bool(view.suffix) == bool(view.media_type)
    assert (name in file_views()) == bool(view.suffix)
    assert isinstance(view.render(sentence()), str | bytes)
    assert isinstance(view.render_comparison([sentence(), sentence()]), str | bytes)


@pytest.mark.parametrize("name", list(views))
def test_every_view_is_the_same_twice(name: str, sentence: Make) -> None:
    assert views[name].render(sentence()) == views[name].render(sentence())


@pytest.mark.parametrize("name", ["html", "json", "pdf", "png", "svg"])
def test_results_write_their_views(name: str, sentence: Make, tmp_path: Path) -> None:
    for result in (sentence(), Comparison((sentence(), sentence(method="gae")))):
        to_file = getattr(result, f"to_{name}")
        content, path = to_file(), tmp_path / f"why.{name}"
        assert to_file(path) is None
        assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
        assert result.render(name) == content
        assert result.render(name, path) is None
        assert "gripping" in result.to_terminal()


def test_a_result_refuses_unknown_views_options_and_folders(sentence: Make, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no view called 'docx'"):
        sentence().render("docx")
    with pytest.raises(OptionError, match="no option 'bars'") as refused:
        sentence().render("png", bars=True)
    assert refused.value.argument == "bars"
    assert refused.value.remedy == "Pass one of subwords, size, dpi, colours, specials, photo"
    with pytest.raises(InputError, match="there is no folder") as refused_folder:
        sentence().to_html(tmp_path / "nowhere" / "why.html")
    assert refused_folder.value.argument == "path"


TOY = """
from whyformer.attribution import view

@view("loud", title="loud text", suffix=".loud", media_type="text/plain")
class Loud:
    def render(self, attribution):
        return attribution.labels[0].upper()
    def render_comparison(self, attributions):
        return " ".join(map(self.render, attributions))
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more file in a folder of views."""
    folder = tmp_path / "views"
    folder.mkdir()
    (folder / "loud_toy.py").write_text(TOY, encoding="utf-8")
    monkeypatch.setattr(view_folder, "__path__", [*view_folder.__path__, str(folder)])
    monkeypatch.setattr(views, "_scanned", False)
    yield
    views._entries.pop("loud", None)
    sys.modules.pop("whyformer.render.views.loud_toy", None)


def test_a_new_view_is_one_file(toy: None, sentence: Make, tmp_path: Path) -> None:
    assert sentence(label="good").render("loud") == "GOOD"
    Comparison((sentence(label="a"), sentence(label="b"))).render("loud", tmp_path / "both.loud")
    assert (tmp_path / "both.loud").read_text() == "A B"
    for command in ("explain", "compare"):
        help_page = CliRunner().invoke(
            application(), [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}
        )
        assert "--loud" in help_page.output
        assert "Write loud text." in help_page.output
    assert b'download="why.loud"' in page(Catalogue([]), Limits())
