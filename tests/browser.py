"""Pages in headless Chromium, driven by Playwright: real keys, pointer and time.

One browser serves many pages. The console, errors and requests of the page are kept.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT = 90.0  # seconds, where the machine is busy
DRAW = "new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 100)))"

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


class Browser:
    """A browser without a window; `show` opens a page in it."""

    def __init__(self, folder: Path) -> None:
        from playwright.sync_api import sync_playwright

        self.folder = folder
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(ARGUMENTS)
        )
        self.page = self._browser.new_page()
        self.page.set_default_timeout(1000 * WAIT)
        self._tools = self.page.context.new_cdp_session(self.page)
        self._complaints: list[str] = []
        self._requests: list[str] = []
        self._count = 0
        self.url = ""
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self._complaints.append(str(error)))
        self.page.on("request", lambda request: self._requests.append(request.url))

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._complaints.append(message.text)

    def close(self) -> None:
        """Close the browser."""
        self._browser.close()
        self._playwright.stop()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of Chromium that Playwright has no function for."""
        answer: dict[str, Any] = self._tools.send(method, parameters)
        return answer

    # -- doing -------------------------------------------------------------------------------

    def show(
        self, page: str, width: int = 1280, *, dark: bool = False, scripts: bool = True
    ) -> None:
        """Open the page from a file and wait until it is loaded."""
        self._count += 1
        file = self.folder / f"page{self._count}.html"
        file.write_text(page, encoding="utf-8")
        self.go(file.as_uri(), width, dark=dark, scripts=scripts)
        self.run("Promise.all([...document.images].map((image) => image.decode()))")

    def go(
        self,
        url: str,
        width: int = 1280,
        *,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
    ) -> None:
        """Open an address and wait until it is loaded."""
        self.url = url
        self.page.emulate_media(media="screen", color_scheme="dark" if dark else "light")
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.goto("about:blank")
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._complaints.clear()
        self._requests.clear()
        self.page.goto(url)
        self.ask("Emulation.setScriptExecutionDisabled", value=False)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        return self.page.evaluate(script)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def point(self, selector: str, nth: int = 0, x: float = 0.5, y: float = 0.5) -> None:
        """Move the pointer to a place within an element, given as fractions of its size."""
        left, top, width, height = self.run(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{nth}];"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.left, r.top, r.width, r.height]; })()"
        )
        self._place = left + x * width, top + y * height
        self.page.mouse.move(*self._place)

    def click(self, selector: str, nth: int = 0, x: float = 0.5, y: float = 0.5) -> None:
        """Click within an element."""
        self.point(selector, nth, x, y)
        self.page.mouse.click(*self._place)

    def picture(self) -> bytes:
        """The whole page as a PNG file."""
        return self.page.screenshot(full_page=True)

    # -- what went wrong ---------------------------------------------------------------------

    @property
    def complaints(self) -> list[str]:
        """Errors, warnings and broken policies of the page so far."""
        self.run("0")
        return list(self._complaints)

    @property
    def requests(self) -> list[str]:
        """Addresses that the page requested, except itself and data: addresses."""
        self.run("0")
        return [url for url in self._requests if not url.startswith("data:") and url != self.url]


def open_browser(folder: Path) -> Iterator[Browser]:
    """Yield a browser, and close it afterwards; skip the test where there is no Chromium."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    browser = Browser(folder)
    yield browser
    browser.close()
