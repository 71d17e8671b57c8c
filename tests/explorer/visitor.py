"""A visitor of the explorer: a browser that opens addresses, and looks into the report's frame."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

from tests.devtools import Browser

PATIENCE = 90.0  # seconds, where the machine is busy
DRAWN = "new Promise((told) => requestAnimationFrame(() => setTimeout(told, 100)))"


class Visitor(Browser):
    """`open` a link, `wait` for something to be true, `inside` runs a script in the report."""

    home = ""  # the explorer's address

    def __init__(self, folder: Path) -> None:
        self._frames: dict[str, str] = {}  # address by session
        super().__init__(folder)
        self.ask("Target.setAutoAttach", autoAttach=True, flatten=True, waitForDebuggerOnStart=True)
        allowed = {"behavior": "allow", "downloadPath": str(folder)}
        self._ask("Browser.setDownloadBehavior", allowed, session=None)

    def _next(self) -> dict[str, Any]:
        event = super()._next()
        told = event.get("params", {}).get("targetInfo", {})
        if event.get("method") == "Target.attachedToTarget" and told["type"] == "iframe":
            session = event["params"]["sessionId"]
            self._frames[session] = told["url"]
            for method in ("Runtime.enable", "Network.enable", "Log.enable", "Page.enable"):
                self._send(method, session)
            self._send("Runtime.runIfWaitingForDebugger", session)
        if event.get("method") == "Target.detachedFromTarget":
            self._frames.pop(event["params"]["sessionId"], None)
        return event

    def _send(self, method: str, session: str) -> None:
        """Asks without waiting: the answer comes by with the events."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": {}, "sessionId": session}
        os.write(self._out, json.dumps(message).encode() + b"\0")

    def open(self, url: str, width: int = 1280, *, dark: bool = False, height: int = 900) -> None:
        """Goes to the address and waits until its script has run."""
        self.url = url
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Page.navigate", url="about:blank")
        self.events.clear()
        self.ask("Page.navigate", url=url)
        self.wait("document.body?.dataset.ready !== undefined")

    def wait(self, truth: str, seconds: float = PATIENCE) -> None:
        """Waits until an expression of the page is true."""
        ends = time.monotonic() + seconds
        while not self.run(f"Boolean({truth})"):
            assert time.monotonic() < ends, f"never became true: {truth}; {self.text('#error')}"
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        """What an element shows."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def explained(self) -> None:
        """Waits for the end of what runs, and for the frame to have told its height."""
        self.wait("['done', 'error', 'cancelled'].includes(document.body.dataset.state)")
        assert self.run("document.body.dataset.state") == "done", self.text("#error")
        self.wait("document.getElementById('report').style.height")

    def press_explain(self) -> None:
        """Presses the button and waits for the end."""
        self.run("delete document.body.dataset.state")
        self.click("#explain")
        self.explained()

    def inside(self, script: str) -> Any:
        """What an expression comes to in the report's frame."""
        ends = time.monotonic() + PATIENCE
        while not self._frames:
            assert time.monotonic() < ends, "there is no frame"
            self.run("0")
        session = list(self._frames)[-1]
        answer = self._ask(
            "Runtime.evaluate",
            {"expression": script, "awaitPromise": True, "returnByValue": True},
            session,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point(self, selector: str, nth: int = 0, x: float = 0.5, y: float = 0.5) -> None:
        """Moves the pointer to a place within an element, once all that scrolled has been drawn.

        Until then the browser still takes the frame to be where it was, and gives it the click.
        """
        super().point(selector, nth, x, y)
        self.run(DRAWN)
        super().point(selector, nth, x, y)

    def point_inside(self, selector: str, nth: int = 0) -> None:
        """Moves the pointer to the middle of an element of the report."""
        self.run("document.getElementById('report').scrollIntoView()")
        place = (
            f"(() => {{ const r = document.querySelectorAll({json.dumps(selector)})[{nth}]"
            ".getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        frame = (
            "(() => { const r = document.getElementById('report').getBoundingClientRect();"
            " return [r.left, r.top]; })()"
        )
        self.run(DRAWN)
        (x, y), (left, top) = self.inside(place), self.run(frame)
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=left + x, y=top + y)

    def view(self) -> bytes:
        """All of the page, frame included, as a PNG file."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        metrics = {"deviceScaleFactor": 1, "mobile": False}
        width = int(self.run("innerWidth"))
        whole = {"width": width, "height": int(size["height"]), **metrics}
        self.ask("Emulation.setDeviceMetricsOverride", **whole)  # frames draw what is in view only
        time.sleep(0.5)
        shown = self.ask("Page.captureScreenshot")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, **metrics)
        return base64.b64decode(shown["data"])
