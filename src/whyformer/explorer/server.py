"""The server: a page, its files, one way to ask, and results for a while. Standard library only."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import unquote, urlsplit

from whyformer.errors import InputError, WhyformerError
from whyformer.explorer.catalogue import Catalogue
from whyformer.explorer.error_text import error_text
from whyformer.explorer.explain_job import explain_job
from whyformer.explorer.explain_request import read_request
from whyformer.explorer.frame import framed
from whyformer.explorer.jobs import INTERNAL_ERROR, JobQueue
from whyformer.explorer.limits import BusyError, Limits, TooMuchError
from whyformer.explorer.page import page
from whyformer.explorer.result_cache import ResultCache
from whyformer.explorer.security import (
    HEADERS,
    PAGE,
    REPORT,
    ForeignRequestError,
    check_host,
    check_origin,
)

FILES = {
    "explorer.css": "text/css; charset=utf-8",
    "explorer.js": "text/javascript; charset=utf-8",
    "form.js": "text/javascript; charset=utf-8",
    "results.js": "text/javascript; charset=utf-8",
    "curve.js": "text/javascript; charset=utf-8",
    "favicon.svg": "image/svg+xml",
}
HTML = "text/html; charset=utf-8"
# What a result is called in each form, and the form's name on the web.
DOWNLOADS = {
    "html": ("page", HTML),
    "png": ("picture", "image/png"),
    "json": ("data", "application/json"),
}
STATUS: dict[type[WhyformerError], int] = {
    ForeignRequestError: 403,
    TooMuchError: 413,
    BusyError: 503,
}
FULL = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"too many connections are open; try again in a few seconds\n"
)


class Explorer(ThreadingHTTPServer):
    """All that the pages share: the models, the jobs, the results."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # connections that the system holds until they are taken

    def __init__(
        self,
        offered: Catalogue,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self.offered = offered
        self.limits = limits or Limits()
        self.jobs, self.results = JobQueue(self.limits), ResultCache(self.limits)
        self.host = host
        self.page = page(offered, self.limits)
        self._open = threading.BoundedSemaphore(self.limits.connections)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), Handler)

    @property
    def url(self) -> str:
        """Where a browser finds the page."""
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
        return f"http://{shown}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a connection its thread; one too many is refused."""
        if not self._open.acquire(blocking=False):
            request.settimeout(0.05)  # everybody else waits meanwhile
            with suppress(OSError):
                request.recv(1 << 16)  # what is closed unread is reset, and the no gets lost
            with suppress(OSError):
                request.sendall(FULL)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Browsers leave in the middle; anything else is a mistake of ours and is shown."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One request; a connection carries one, so that an idle browser holds no thread."""

    server: Explorer
    server_version, sys_version = "whyformer", ""
    _begun = False  # whether an answer is on its way

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.limits.reading)

    def do_GET(self) -> None:
        """The page, its files, an example's image, or a result."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Explains, and tells while it does."""
        self._answer(self._post)

    def _answer(self, do: Callable[[], None]) -> None:
        try:
            check_host(self._request_headers, self.server.host)
            do()
        except WhyformerError as error:
            status = next((STATUS[kind] for kind in STATUS if isinstance(error, kind)), 400)
            self._refuse(status, error_text(error))
        except OSError:
            raise  # the browser has left
        except Exception as error:
            traceback.print_exc()
            if not self._begun:
                self._refuse(500, INTERNAL_ERROR.format(name=type(error).__name__))

    @property
    def _request_headers(self) -> dict[str, str]:
        return {name.title(): value for name, value in self.headers.items()}

    # -- what can be had ---------------------------------------------------------------------

    def _get(self) -> None:
        path = urlsplit(self.path).path
        for pattern, give in ROUTES:
            found = re.fullmatch(pattern, path)
            if found:
                give(self, *found.groups())
                return
        self._refuse(404, "there is no such page; go back to the explorer's first")

    def _page(self) -> None:
        self._send(self.server.page, HTML)

    def _file(self, name: str) -> None:
        if name not in FILES:
            self._refuse(404, "there is no such file")
            return
        self._send(_file(name), FILES[name])

    def _example(self, model: str, index: str) -> None:
        image = self.server.offered.example(unquote(model), int(index)).image
        if image is None:
            raise InputError("this example has no image")
        self._send(image.read_bytes(), "image/png")

    def _report(self, name: str) -> None:
        self._send(framed(self.server.results.get(name).page), HTML, policy=REPORT)

    def _download(self, name: str, kind: str) -> None:
        result = self.server.results.get(name)
        part, sort = DOWNLOADS[kind]
        self._send(getattr(result, part), sort, policy=REPORT, file=f"why.{kind}")

    # -- what can be asked -------------------------------------------------------------------

    def _post(self) -> None:
        check_origin(self._request_headers)
        if urlsplit(self.path).path != "/explain":
            self._refuse(404, "there is nothing to ask here")
            return
        if self._request_headers.get("Content-Type") != "application/json":
            raise InputError("the request is no JSON; reload the page")
        request = read_request(self._body(), self.server.offered, self.server.limits)
        job = self.server.jobs.submit(explain_job(request, self.server.results))
        self._head(200, "application/x-ndjson", PAGE)
        try:
            for event in job.events():
                self.wfile.write(json.dumps(event, allow_nan=False).encode() + b"\n")
        finally:
            job.cancel()  # the browser has left, or the job has ended anyway

    def _body(self) -> bytes:
        """All that was sent, within its size and time."""
        limits = self.server.limits
        given = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,12}", given):
            raise InputError("the request has no length; reload the page")
        length = int(given)
        if length > limits.body:
            # A browser that still sends does not hear the no: some of it is read and forgotten.
            self._read(min(length, 8 * limits.body), 2.0, keep=False)
            raise TooMuchError(
                f"the request has {length / 1e6:.1f} MB, more than an image of"
                f" {limits.upload / 1e6:g} MB and a text need; make the image smaller"
            )
        content = self._read(length, limits.reading)
        if len(content) < length:
            raise InputError("the request did not arrive whole; try again")
        return content

    def _read(self, length: int, seconds: float, keep: bool = True) -> bytes:
        """What arrives of so many bytes within that time."""
        ends, parts = time.monotonic() + seconds, []
        with suppress(TimeoutError):
            while length and time.monotonic() < ends:
                part = self.rfile.read1(min(length, 1 << 16))
                if not part:
                    break
                length -= len(part)
                if keep:
                    parts.append(part)
        return b"".join(parts)

    # -- how it is answered ------------------------------------------------------------------

    def _send(self, content: bytes, sort: str, policy: str = PAGE, file: str = "") -> None:
        self._head(200, sort, policy, length=len(content), file=file)
        self.wfile.write(content)

    def _refuse(self, status: int, says: str) -> None:
        content = json.dumps({"event": "error", "says": says}).encode() + b"\n"
        self._head(status, "application/json", PAGE, length=len(content))
        self.wfile.write(content)

    def _head(
        self, status: int, sort: str, policy: str, length: int | None = None, file: str = ""
    ) -> None:
        self._begun = True
        self.send_response(status)
        self.send_header("Content-Type", sort)
        self.send_header("Content-Security-Policy", policy)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if file:
            self.send_header("Content-Disposition", f'attachment; filename="{file}"')
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A refusal by the standard library, in the same form as ours."""
        self._refuse(code, "the request cannot be understood; reload the page")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what people type is not written down."""


NAME = "([A-Za-z0-9_-]{16})"
ROUTES: tuple[tuple[str, Callable[..., None]], ...] = (
    ("/", Handler._page),
    (r"/files/([a-z.]+)", Handler._file),
    (r"/examples/([^/]{1,200})/([0-9]{1,3})", Handler._example),
    (rf"/results/{NAME}/report", Handler._report),
    (rf"/results/{NAME}/why\.(html|png|json)", Handler._download),
)


@cache
def _file(name: str) -> bytes:
    return resources.files("whyformer.explorer").joinpath(f"templates/{name}").read_bytes()


def warm(explorer: Explorer) -> None:
    """Loads the first model in the background, while the reader reads."""
    first = next(iter(explorer.offered.entries.values()))

    def load() -> None:
        with suppress(WhyformerError):  # whoever asks the model is told
            first.load()

    threading.Thread(target=load, daemon=True).start()
