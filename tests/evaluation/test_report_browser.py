"""A real browser: the report's scripts run under its own policy, sort columns and pick lines.

Skipped where no Chromium is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import Browser, needs_chromium, open_browser
from whyformer.attribution import Attribution
from whyformer.evaluation.report import build_report, choose_examples
from whyformer.evaluation.results import Results
from whyformer.evaluation.summary import summary

Make = Callable[..., Results]
pytestmark = needs_chromium

DRIVER = """(() => {
  const found = {};
  const press = (on, key) =>
    on.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  BODY
  return found;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real browser that shows one page after the other."""
    yield from open_browser(tmp_path_factory.mktemp("browser"))


def drive(browser: Browser, page: str, body: str, width: int = 1200) -> dict[str, Any]:
    """What the steps found in the page, which complained about nothing."""
    browser.show(page, width)
    found: dict[str, Any] = browser.run(DRIVER.replace("BODY", body))
    assert browser.complaints == []
    return found


def test_the_page_works_in_a_browser(
    run: Make, linked: Callable[..., Attribution], browser: Browser
) -> None:
    results = run(methods=9, targets=["label"])
    shown = [
        c.example({m: linked(method=m) for m in c.methods}) for c in choose_examples(results, 1)
    ]
    found = drive(
        browser,
        build_report(results, shown),
        """
        const table = document.querySelector("table[data-sortable]");
        const order = () => [...table.tBodies[0].rows].map((r) => r.cells[0].textContent);
        const [name, auac, mse] = table.tHead.querySelectorAll("button");
        found.unsorted = order();
        auac.click();
        found.auac = order();
        found.sort = auac.parentElement.getAttribute("aria-sort");
        auac.click();
        found.turned = order();
        auac.click();
        found.again = order();
        mse.click();
        found.mse = order();
        found.sorts = table.querySelectorAll("[aria-sort]").length;
        name.click();
        found.names = order();

        const svg = document.querySelector("svg.curves");
        const band = svg.querySelector(".line .band");
        const opacity = () => Number(getComputedStyle(band).opacity);
        found.hidden = opacity();
        svg.querySelector(".line").dispatchEvent(new PointerEvent("pointerenter"));
        found.pointed = opacity();
        svg.querySelector(".line").dispatchEvent(new PointerEvent("pointerleave"));
        found.left = opacity();
        svg.focus();
        press(svg, "ArrowDown");
        press(svg, "ArrowDown");
        const picked = () => [...svg.querySelectorAll(".label.picked title")];
        found.picked = picked().map((t) => t.textContent);
        found.status = svg.parentElement.nextElementSibling.textContent;
        found.second = svg.querySelectorAll(".label title")[1].textContent;
        press(svg, "Escape");
        found.escaped = picked().length;

        const words = document.querySelector(".links-inside .word");
        found.button = words.getAttribute("role");
        words.focus();
        found.linked = document.querySelector(".links-inside .linked-now").textContent;

        const closed = () => document.querySelectorAll("details:not([open])").length;
        found.closed = closed();
        dispatchEvent(new Event("beforeprint"));
        found.printed = closed();
        dispatchEvent(new Event("afterprint"));
        found.after = closed();
        """,
    )
    methods = list(results.methods)
    by = {f.metric: f for f in summary(results)}

    def ordered(metric: str, falling: bool) -> list[str]:
        return sorted(methods, key=lambda m: by[metric].by_method[m].mean, reverse=falling)

    assert found["unsorted"] == found["again"] == methods
    assert found["auac"] == ordered("auac", True)  # the best first: higher is better
    assert found["sort"] == "descending"
    assert found["turned"] == ordered("auac", False)
    assert found["mse"] == ordered("au_mse", False)  # the best first: lower is better
    assert found["sorts"] == 1
    assert found["names"] == sorted(methods)
    assert found["hidden"] == found["left"] == 0  # nine bands at once would hide each other
    assert found["pointed"] > 0
    assert found["picked"] == [found["second"]] == [found["status"]]
    assert found["escaped"] == 0
    assert found["button"] == "button"  # the examples' own script runs too
    assert found["linked"].startswith("relevance for")
    assert found["closed"] == found["after"] > 0
    assert found["printed"] == 0


def test_nothing_sticks_out_on_a_narrow_screen(
    run: Make, words: Callable[..., Attribution], browser: Browser
) -> None:
    results = run(methods=9)
    shown = [
        c.example({m: words(method=m) for m in c.methods}) for c in choose_examples(results, 1)
    ]
    found = drive(
        browser,
        build_report(results, shown),
        """
        found.width = document.documentElement.clientWidth;
        found.page = document.documentElement.scrollWidth;
        """,
        width=380,
    )
    assert found["page"] <= found["width"] <= 380
