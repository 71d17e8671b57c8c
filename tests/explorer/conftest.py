"""One explorer and one browser for all of these tests, and a way to ask without a browser."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.browser import CHROMIUM
from tests.explorer.visitor import Visitor
from whyformer.explorer.app import Explorer, create_app
from whyformer.explorer.catalogue import Catalogue, catalogue
from whyformer.explorer.serve import ExplorerServer


@dataclass
class Answer:
    """What the server said: status, headers, body, and its lines where it is a job's."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def says(self) -> str:
        return str(self.events[-1].get("says", ""))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]


@dataclass
class Client:
    """Asks one explorer, with the headers that its own page would send."""

    server: ExplorerServer

    @property
    def explorer(self) -> Explorer:
        return self.server.explorer

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def say(self, *parts: bytes, pause: float = 0.0, wait: float = 20.0) -> bytes:
        """Everything that comes back for raw bytes, sent with pauses in between."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=wait) as line:
            with suppress(ConnectionError):
                for part in parts:
                    line.sendall(part)
                    time.sleep(pause)
            answer = b""
            with suppress(ConnectionError):
                while part := line.recv(1 << 16):
                    answer += part
            return answer

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        sent = {"Host": self.place, **{k.replace("_", "-"): v for k, v in headers.items()}}
        line = http.client.HTTPConnection(self.place, timeout=120)
        try:
            line.request(method, path, body, {k: v for k, v in sent.items() if v != "-"})
            answer = line.getresponse()
            found = {name.title(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            line.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, **headers)

    def explain(self, headers: dict[str, str] | None = None, **question: Any) -> Answer:
        asked = {"model": "sst2", "methods": ["gae"], **question}
        sent: dict[str, Any] = {"Origin": f"http://{self.place}"}
        sent |= {"Content_Type": "application/json", **(headers or {})}
        return self.ask("POST", "/explain", json.dumps(asked).encode(), **sent)


def serve(app: Starlette, **settings: Any) -> Iterator[Client]:
    """A client of the application, which runs meanwhile."""
    server = ExplorerServer(app, **settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield Client(server)
    server.stop()
    thread.join()


@pytest.fixture(scope="session")
def offered() -> Catalogue:
    """The bundled models."""
    return catalogue()


@pytest.fixture(scope="session")
def client(offered: Catalogue) -> Iterator[Client]:
    """A client of an explorer with the usual limits."""
    yield from serve(create_app(offered))


@pytest.fixture(scope="module")  # while it is open, its thread has a running event loop
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """One browser for the tests of a file."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    visitor = Visitor(tmp_path_factory.mktemp("visitor"))
    yield visitor
    visitor.close()


@pytest.fixture
def visitor(browser: Visitor, client: Client, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """The browser; a picture of how the test left the page is kept where somebody wants it."""
    browser.home = client.server.url
    yield browser
    wanted = os.environ.get("WHYFORMER_ARTEFACTS")
    if wanted:
        folder = Path(wanted) / "explorer"
        folder.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() else "_" for c in request.node.name)
        (folder / f"{name}.png").write_bytes(browser.view())
