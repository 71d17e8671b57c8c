"""The report of an audit in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, needs_chromium, open_browser
from whyformer.audit import audit_names
from whyformer.models.load import Loaded

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real browser."""
    yield from open_browser(tmp_path_factory.mktemp("browser"))


def test_a_browser_shows_it_and_complains_about_nothing(tiny: Loaded, browser: Browser) -> None:
    found = audit_names(
        tiny,
        names={"a": ["Anna", "<script>document.title = 1</script>"], "b": ["Bob", "Cy"]},
        templates={"x": ["the film by {name}"]},
        draws=20,
    )
    browser.show(found.to_html())
    assert "Differences between groups" in browser.run("document.body.innerText")
    assert browser.run("document.title") != "1"
    assert browser.complaints == []
    assert browser.requests == []
