"""Requests to the explorer without a socket: bodies, bytes of a connection, ASGI scopes."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import random
import re
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

import whyformer.explorer.app as explorer_app
from tests.fuzz.json_like import drawing, json_like
from tests.fuzz.mutate import TEXTS, json_bytes, mutate_bytes, mutate_json
from tests.fuzz.surface import ForeignError
from whyformer.explorer.catalogue import Catalogue, catalogue
from whyformer.explorer.connection_guard import ConnectionGuard, GuardedConnection
from whyformer.explorer.explain_request import FIELDS, ExplainRequest, read_request
from whyformer.explorer.limits import Limits
from whyformer.explorer.serve import HEADER_BYTES

BODY, BYTES, SCOPE = "body.json", "connection.bin", "scope.json"
ASKED: dict[str, Any] = {"model": "sst2", "methods": ["gae"], "text": "a film", "target": ""}
FULL = {**ASKED, "second": "b", "query": 0, "example": 0, "image": "aGk=", "answer": "a"}
FULL |= {"max_new_tokens": 3, "sample": 0, "curves": False}
SECONDS = 3.0  # until an answer must have come
STATUS = frozenset({200, 400, 403, 404, 405, 408, 413, 503})
PATHS = ("/", "/files/explorer.js", "/files/../app.py", "/examples/mnist/0", "/examples/a/b/99",
         "/results/abc/report", "/results/abc/why.json", "/samples?start=0", "/samples?start=-1",
         "/samples/0/image", "/explain", "//", "/%2e%2e/%00", "*", "http://[")  # fmt: skip
HOSTS = ("localhost", "127.0.0.1:8000", "[::1]:80", "[::1", "evil.example", "", "a:b:c", "\xff",
         "localhost@evil.example", "localhost:99999", "9" * 300)  # fmt: skip
KINDS = ("application/json", "application/JSON; charset=x", "multipart/form-data; boundary=b",
         "multipart/form-data", "text/plain", "")  # fmt: skip
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "get", "\xe4", "CONNECT")
MULTIPART = b'--b\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\nhi\r\n--b--'


@cache
def _offered() -> Catalogue:
    return catalogue()


@cache
def _similar() -> Callable[[random.Random], Any]:
    return drawing(json_like(FULL))


def _body(draw: random.Random) -> bytes:
    if draw.random() < 0.4:
        return json_bytes(_similar()(draw))
    body = mutate_json(ASKED, draw)
    if isinstance(body, dict) and draw.random() < 0.5:
        body[draw.choice(sorted(FIELDS))] = mutate_json(None, draw)
    data = json_bytes(body)
    return mutate_bytes(data, draw) if draw.random() < 0.3 else data


# -- bodies ----------------------------------------------------------------------------------------


def make_body(draw: random.Random, folder: Path) -> None:
    """The body of an explain request."""
    (folder / BODY).write_bytes(_body(draw))


def read_body(folder: Path) -> None:
    """Read the body alone."""
    read_request((folder / BODY).read_bytes(), _offered(), Limits())


# -- raw bytes of a connection ---------------------------------------------------------------------


def make_bytes(draw: random.Random, folder: Path) -> None:
    """One or two requests as bytes, some of them changed."""
    data = b"".join(_request(draw) for _ in range(draw.randint(1, 2)))
    (folder / BYTES).write_bytes(mutate_bytes(data, draw) if draw.random() < 0.6 else data)


def _request(draw: random.Random) -> bytes:
    body = draw.choice((b"", MULTIPART, _body(draw)))
    method = "POST" if body and draw.random() < 0.9 else draw.choice(METHODS)
    path = "/explain" if body and draw.random() < 0.8 else draw.choice(PATHS)
    host = HOSTS[0] if draw.random() < 0.7 else draw.choice(HOSTS)
    kind = KINDS[0] if draw.random() < 0.7 else draw.choice(KINDS)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Origin: http://{host}"]
    lines += [f"Content-Type: {kind}"]
    if draw.random() < 0.2:
        lines.append("Transfer-Encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    elif body:
        lines.append(f"Content-Length: {draw.choice((len(body),) * 8 + (0, -1, 10**9, 10**30))}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)})
        self.sent = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


@cache
def _server() -> tuple[asyncio.AbstractEventLoop, Starlette, uvicorn.Config, list[Any]]:
    """An event loop, the application, its server's settings, and what went wrong in the loop."""
    loop, wrong = asyncio.new_event_loop(), list[Any]()
    loop.set_exception_handler(lambda _, context: wrong.append(context))
    app = explorer_app.create_app(_offered())
    config = uvicorn.Config(
        app, ws="none", log_config=None, log_level="critical", access_log=False,
        h11_max_incomplete_event_size=HEADER_BYTES,
    )  # fmt: skip
    config.load()
    return loop, app, config, wrong


def read_bytes(folder: Path) -> None:
    """Send the bytes through the connection of the server, then hang up."""
    loop, _, config, wrong = _server()
    connect: Any = partial(GuardedConnection, ConnectionGuard(Limits()))
    transport = _Transport()

    async def send() -> None:
        line = connect(config=config, server_state=ServerState(), app_state={}, _loop=loop)
        line.connection_made(transport)
        line.data_received((folder / BYTES).read_bytes() or b"\r\n")  # never empty in asyncio
        await asyncio.sleep(0)
        ends = time.monotonic() + SECONDS
        while line._phase == "answering" and not transport.closed:
            if time.monotonic() > ends:
                raise ForeignError("there is no answer")
            await asyncio.sleep(0.0005)
        line.eof_received()
        line.connection_lost(None)
        for _ in range(5):
            await asyncio.sleep(0)

    _check(loop, send, wrong)
    for status in re.findall(rb"HTTP/1\.1 (\d+)", bytes(transport.sent)):
        if int(status) not in STATUS:
            raise ForeignError(f"status {status!r}: {bytes(transport.sent[-300:])!r}")
    if transport.sent and b"nosniff" not in transport.sent:
        raise ForeignError(f"no protecting headers: {bytes(transport.sent[:300])!r}")


def _quick_job(asked: ExplainRequest, results: Any) -> Any:
    """A job that only decodes the image."""
    if asked.image is None:
        return lambda send: None

    def decode(send: Any) -> Any:
        asked.decoded()
        return lambda send: None

    return decode


def _check(loop: asyncio.AbstractEventLoop, work: Callable[[], Any], wrong: list[Any]) -> None:
    """Run work in the loop; raise ForeignError if a traceback is printed or a task fails."""
    wrong.clear()
    printed = io.StringIO()
    quick = mock.patch.object(explorer_app, "explain_job", _quick_job)
    with contextlib.redirect_stderr(printed), quick:
        loop.run_until_complete(work())
    if wrong or "Traceback" in printed.getvalue():
        raise ForeignError(f"{wrong} {printed.getvalue()[-500:]}")


# -- ASGI scopes -----------------------------------------------------------------------------------


def make_scope(draw: random.Random, folder: Path) -> None:
    """A request as another server, or an application around ours, may pass it on."""
    host = HOSTS[0] if draw.random() < 0.7 else draw.choice(HOSTS)
    path, _, query = draw.choice((*PATHS, *TEXTS)).partition("?")
    headers = [["host", host], ["origin", f"http://{host}"], ["content-type", draw.choice(KINDS)]]
    headers += [["content-length", draw.choice(("3", "-1", "x", "9" * 30, "²"))]]
    kept = [header for header in headers if draw.random() < 0.8]
    scope = {
        "type": "http",
        "method": draw.choice(METHODS),
        "path": path if draw.random() < 0.5 else "/explain",
        "query_string": query,
        "root_path": draw.choice(("", "", "/a", "x")),
        "headers": kept,
        "client": draw.choice((None, ["127.0.0.1", 5], ["", 0])),
        "body": [part.decode("latin-1") for part in (_body(draw), b"", b"x" * 3)],
        "leaves": draw.random() < 0.2,
    }
    (folder / SCOPE).write_bytes(json_bytes(scope))


def read_scope(folder: Path) -> None:
    """Call the application with the scope."""
    loop, app, _, wrong = _server()
    scope = json.loads((folder / SCOPE).read_bytes().decode("utf-8", "surrogatepass"))
    parts = [part.encode("latin-1", "replace") for part in scope.pop("body")]
    leaves = scope.pop("leaves")
    scope["headers"] = [[one.encode("latin-1", "replace") for one in h] for h in scope["headers"]]
    scope["query_string"] = scope["query_string"].encode("utf-8", "replace")
    scope |= {"http_version": "1.1", "scheme": "http", "server": None, "asgi": {"version": "3.0"}}
    started: list[int] = []

    async def receive() -> dict[str, Any]:
        if not parts:
            await asyncio.sleep(0.001)
            return {"type": "http.disconnect"}
        if leaves and len(parts) == 1:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            started.append(message["status"])

    async def call() -> None:
        async with asyncio.timeout(SECONDS):
            await app(scope, receive, send)

    _check(loop, call, wrong)
    if len(started) > 1 or not STATUS.issuperset(started) or not (started or leaves):
        raise ForeignError(f"answers {started}")
