"""A visitor of the explorer: a browser that opens addresses, and looks into the report's frame."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.browser import DRAW, WAIT, Browser


class Visitor(Browser):
    """`open` a link, `wait` for something to be true, `inside` runs a script in the report."""

    home = ""  # the explorer's address

    def open(self, url: str, width: int = 1280, *, dark: bool = False, height: int = 900) -> None:
        """Go to the address and wait until its script has run."""
        self.go(url, width, dark=dark, height=height)
        self.wait("document.body?.dataset.ready !== undefined")

    def wait(self, truth: str, seconds: float = WAIT) -> None:
        """Wait until an expression of the page is true."""
        ends = time.monotonic() + seconds
        while not self.run(f"Boolean({truth})"):
            assert time.monotonic() < ends, f"never became true: {truth}; {self.text('#error')}"
            self.page.wait_for_timeout(50)

    def wait_inside(self, truth: str, seconds: float = WAIT) -> None:
        """Wait until an expression of the report is true."""
        ends = time.monotonic() + seconds
        while not self.inside(f"Boolean({truth})"):
            assert time.monotonic() < ends, f"never became true in the report: {truth}"
            self.page.wait_for_timeout(50)

    def text(self, selector: str) -> str:
        """What an element shows."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait_for_end(self) -> None:
        """Wait for the end of what runs, and for the frame to have sent its height."""
        self.wait("['done', 'error', 'cancelled'].includes(document.body.dataset.state)")
        assert self.run("document.body.dataset.state") == "done", self.text("#error")
        self.wait("document.querySelector('#reports iframe, #report').style.height")

    def press_explain(self) -> None:
        """Press the button and wait for the end."""
        self.run("delete document.body.dataset.state")
        self.click("#explain")
        self.wait_for_end()

    def inside(self, script: str) -> Any:
        """What an expression comes to in the report's frame, the last one if there are several."""
        from playwright.sync_api import Error

        ends = time.monotonic() + WAIT
        while True:
            frames = [one for one in self.page.frames if one.url.endswith("/report")]
            try:
                if frames:
                    return frames[-1].evaluate(script)
            except Error as error:
                if "navigation" not in str(error) and "detached" not in str(error):
                    raise
            assert time.monotonic() < ends, "there is no frame"
            self.page.wait_for_timeout(50)

    def point(self, selector: str, nth: int = 0, x: float = 0.5, y: float = 0.5) -> None:
        """Move the pointer to a place within an element, once all that scrolled has been drawn.

        Until then the browser still takes the frame to be where it was, and gives it the click.
        """
        super().point(selector, nth, x, y)
        self.run(DRAW)
        super().point(selector, nth, x, y)

    def point_inside(self, selector: str, nth: int = 0) -> None:
        """Move the pointer to the middle of an element of the report."""
        self.run("document.querySelector('#reports iframe, #report').scrollIntoView()")
        self.run(DRAW)
        frame = next(one for one in self.page.frames if one.url.endswith("/report"))
        frame.locator(selector).nth(nth).hover(force=True)

    def view(self) -> bytes:
        """All of the page, frame included, as a PNG file."""
        size = self.page.viewport_size or {"width": 1280, "height": 900}
        height = int(self.run("document.documentElement.scrollHeight"))
        self.page.set_viewport_size({"width": size["width"], "height": height})
        self.run(DRAW)  # frames draw only what is in view
        shown = self.page.screenshot()
        self.page.set_viewport_size(size)
        return shown
