"""A real browser: a cell in nbconvert's lab theme, which has rules of its own for all elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser import Browser, needs_chromium
from whyformer.attribution import Attribution

Make = Callable[..., Attribution]
pytestmark = needs_chromium

# Pairs of texts of the facts that lie on each other.
OVERPRINTED = """(() => {
  const parts = [...document.querySelectorAll(".whyformer .facts :is(dt, dd)")];
  const boxes = parts.map((part) => {
    const range = document.createRange();
    range.selectNodeContents(part);
    return [...range.getClientRects()];
  });
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return parts.flatMap((one, i) => parts.slice(i + 1).filter((other, j) =>
    boxes[i].some((a) => boxes[i + 1 + j].some((b) => meet(a, b)))
  ).map((other) => `${one.textContent} | ${other.textContent}`));
})()"""
BACKGROUND = """getComputedStyle([...document.querySelectorAll(".whyformer .word")]
  .find((word) => word.textContent === "gripping")).backgroundColor"""


def lab_page(made: Attribution, theme: str) -> str:
    nbformat = pytest.importorskip("nbformat")
    exporters = pytest.importorskip("nbconvert")
    data = {"text/html": made._repr_html_(), "text/plain": repr(made)}
    output = nbformat.v4.new_output("execute_result", data, execution_count=1)
    cell = nbformat.v4.new_code_cell("a", outputs=[output], execution_count=1)
    exporter = exporters.HTMLExporter(template_name="lab", theme=theme)
    page, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    return str(page)


@pytest.mark.parametrize(
    ("theme", "background"), [("light", "rgb(235, 88, 38)"), ("dark", "rgb(208, 68, 18)")]
)
def test_nothing_is_overprinted_in_the_lab_theme(
    sentence: Make, browser: Browser, theme: str, background: str
) -> None:
    browser.show(lab_page(sentence(options={"start_layer": 0, "normalize": None}), theme))
    assert browser.run(OVERPRINTED) == []
    assert browser.run(BACKGROUND) == background, "the theme decides, not the inline colour"
    starts = "getComputedStyle(document.querySelector('.whyformer tbody th')).textAlign"
    assert browser.run(starts) == "start"


def test_bars_diverge_from_one_axis(sentence: Make, browser: Browser) -> None:
    browser.show(sentence().to_html())
    places = browser.run(
        """[...document.querySelectorAll("table.scores")[0].querySelectorAll(".bar span")].map(
          (bar) => [bar.className, bar.getBoundingClientRect().left,
                    bar.getBoundingClientRect().right])"""
    )
    starts = [left for kind, left, _ in places if kind == "for"]
    ends = [right for kind, _, right in places if kind == "against"]
    assert len(starts) > 1
    assert len(ends) > 1
    assert max(starts) - min(starts) < 1
    assert max(abs(end - starts[0]) for end in ends) < 1.5
