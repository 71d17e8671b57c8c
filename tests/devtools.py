"""Drive headless Chromium over its DevTools pipe: real keys, pointer and time, and its messages.

One browser serves many pages. Every page's console, errors and requests are kept.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.chromium import CHROMIUM

_KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Enter": 13}
_KEYS |= {"Escape": 27, "Tab": 9, "Home": 36, "End": 35, " ": 32}


class Browser:
    """A browser without a window; `show` opens a page in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # The browser reads file 3 and writes file 4: a shell puts the pipes there.
        command = (
            f'exec "{CHROMIUM}" --headless --no-sandbox --disable-gpu --remote-debugging-pipe'
            " --no-first-run --hide-scrollbars --disable-background-networking"
            f' --user-data-dir="{folder}/profile"'
            f" about:blank 3<&{to_browser} 4>&{from_browser}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._count = 0
        self.events: list[dict[str, Any]] = []
        self.url = ""
        target = self._ask("Target.createTarget", {"url": "about:blank"}, session=None)
        attached = self._ask(
            "Target.attachToTarget",
            {"targetId": target["targetId"], "flatten": True},
            session=None,
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        """Close the browser."""
        os.close(self._out)
        self._process.terminate()
        self._process.wait(30)
        os.close(self._in)

    # -- asking ------------------------------------------------------------------------------

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a DevTools command and return its answer."""
        return self._ask(method, parameters, self._session)

    def _ask(self, method: str, parameters: dict[str, Any], session: str | None) -> Any:
        self._count += 1
        wanted = self._count
        message = {"id": wanted, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == wanted:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._in, 2**20)
            assert piece, "the browser has gone"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        return answer

    # -- doing -------------------------------------------------------------------------------

    def show(
        self, page: str, width: int = 1280, *, dark: bool = False, scripts: bool = True
    ) -> None:
        """Open the page from a file and wait until it is loaded."""
        file = self.folder / f"page{self._count}.html"
        file.write_text(page, encoding="utf-8")
        self.url = file.as_uri()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.ask("Page.navigate", url=self.url)
        while not self._loaded():
            self.events.append(self._next())
        self.ask("Emulation.setScriptExecutionDisabled", value=False)
        self.run("Promise.all([...document.images].map((image) => image.decode()))")

    def _loaded(self) -> bool:
        """Whether the page, and not the one before it, has been loaded."""
        names = [
            "here"
            if event.get("params", {}).get("frame", {}).get("url") == self.url
            else event.get("method")
            for event in self.events
        ]
        return "here" in names and "Page.loadEventFired" in names[names.index("here") :]

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            shared = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
            text = {"Enter": "\r", " ": " "}.get(key, "")
            more = {"text": text} if text else {}
            kind = "keyDown" if text else "rawKeyDown"
            self.ask("Input.dispatchKeyEvent", type=kind, **shared, **more)
            self.ask("Input.dispatchKeyEvent", type="keyUp", **shared)

    def point(self, selector: str, nth: int = 0, x: float = 0.5, y: float = 0.5) -> None:
        """Move the pointer to a place within an element, given as fractions of its size."""
        left, top, width, height = self.run(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{nth}];"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.left, r.top, r.width, r.height]; })()"
        )
        place = {"x": left + x * width, "y": top + y * height}
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", **place)
        self._place = place

    def click(self, selector: str, nth: int = 0, x: float = 0.5, y: float = 0.5) -> None:
        """Click within an element."""
        self.point(selector, nth, x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **self._place
            )

    def picture(self) -> bytes:
        """The whole page as a PNG file."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        shown = self.ask(
            "Page.captureScreenshot", captureBeyondViewport=True, clip={**size, "scale": 1}
        )
        return base64.b64decode(shown["data"])

    # -- what went wrong ---------------------------------------------------------------------

    @property
    def complaints(self) -> list[str]:
        """Errors, warnings and broken policies of the page so far."""
        self.run("0")
        found = []
        for event in self.events:
            name, told = event.get("method"), event.get("params", {})
            if name == "Runtime.exceptionThrown":
                found.append(json.dumps(told["exceptionDetails"]))
            if name == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(told["entry"]["text"])
            if name == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
                found.append(json.dumps(told["args"]))
        return found

    @property
    def requests(self) -> list[str]:
        """Addresses that the page requested, except itself and data: addresses."""
        self.run("0")
        asked = [
            str(event["params"]["request"]["url"])
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith("data:") and url != self.url]
