"""The HTTP server: the page, its files, explain requests, and downloads of recent results."""

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

from whyformer.attribution import file_views
from whyformer.errors import InputError, WhyformerError
from whyformer.explorer.catalogue import Catalogue
from whyformer.explorer.error_text import error_text
from whyformer.explorer.explain_job import explain_job
from whyformer.explorer.explain_request import RELOAD, read_request
from whyformer.explorer.frame import frame_report
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
STATUS: dict[type[WhyformerError], int] = {
    ForeignRequestError: 403,
    TooMuchError: 413,
    BusyError: 503,
}
FULL = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"too many connections are open. Try again in a few seconds.\n"
)


class Explorer(ThreadingHTTPServer):
    """The server and what all pages share: the models, the jobs and the results."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # connections that wait to be accepted

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
        """The address of the page."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{host}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread; refuse it if too many are open."""
        if not self._open.acquire(blocking=False):
            request.settimeout(0.05)  # other connections have to wait for this one
            with suppress(OSError):
                request.recv(
                    1 << 16
                )  # closing with unread data would reset the connection and lose the answer
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
        """Ignore closed connections; any other error is a bug and is printed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one request per connection, so that an idle browser holds no thread."""

    server: Explorer
    server_version, sys_version = "whyformer", ""
    _begun = False  # whether the response has started

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.limits.reading)

    def do_GET(self) -> None:
        """Send the page, one of its files, an example's image, or a result."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Explain, and stream the job's events."""
        self._answer(self._post)

    def _answer(self, do: Callable[[], None]) -> None:
        try:
            check_host(self._request_headers, self.server.host)
            do()
        except WhyformerError as error:
            status = next((STATUS[kind] for kind in STATUS if isinstance(error, kind)), 400)
            self._refuse(status, error_text(error))
        except OSError:
            raise  # the connection was closed
        except Exception as error:
            traceback.print_exc()
            if not self._begun:
                self._refuse(500, INTERNAL_ERROR.format(name=type(error).__name__))

    @property
    def _request_headers(self) -> dict[str, str]:
        return {name.title(): value for name, value in self.headers.items()}

    # -- GET ---------------------------------------------------------------------------------

    def _get(self) -> None:
        path = urlsplit(self.path).path
        for pattern, send_page in ROUTES:
            found = re.fullmatch(pattern, path)
            if found:
                send_page(self, *found.groups())
                return
        self._refuse(404, "there is no such page. Go back to the explorer.")

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
        self._send(frame_report(self.server.results.get(name).page), HTML, policy=REPORT)

    def _download(self, name: str, suffix: str) -> None:
        view = next((v for v in file_views().values() if v.suffix == suffix), None)
        if view is None:
            self._refuse(404, "there is no such file")
            return
        content = self.server.results.get(name).file(view.name)
        self._send(content, view.media_type, policy=REPORT, file=f"why{suffix}")

    # -- POST --------------------------------------------------------------------------------

    def _post(self) -> None:
        check_origin(self._request_headers)
        if urlsplit(self.path).path != "/explain":
            self._refuse(404, "there is no such address for requests")
            return
        if self._request_headers.get("Content-Type") != "application/json":
            raise InputError("the request is not JSON", remedy=RELOAD)
        request = read_request(self._body(), self.server.offered, self.server.limits)
        job = self.server.jobs.submit(explain_job(request, self.server.results))
        self._head(200, "application/x-ndjson", PAGE)
        try:
            for event in job.events():
                self.wfile.write(json.dumps(event, allow_nan=False).encode() + b"\n")
        finally:
            job.cancel()  # the connection was closed, or the job has ended anyway

    def _body(self) -> bytes:
        """Return the body of the request; raise InputError if it is too large or too slow."""
        limits = self.server.limits
        header = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,12}", header):
            raise InputError("the request has no valid length", remedy=RELOAD)
        length = int(header)
        if length > limits.body:
            # A browser that is still sending ignores the response: read some, and discard it.
            self._read(min(length, 8 * limits.body), 2.0, keep=False)
            raise TooMuchError(
                f"the request has {length / 1e6:.1f} MB; images may have"
                f" {limits.upload / 1e6:g} MB",
                remedy="Make the image smaller",
            )
        content = self._read(length, limits.reading)
        if len(content) < length:
            raise InputError("the request arrived incomplete", remedy="Try again")
        return content

    def _read(self, length: int, seconds: float, keep: bool = True) -> bytes:
        """Return up to `length` bytes that arrive in time; b"" if not `keep`."""
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

    # -- responses ---------------------------------------------------------------------------

    def _send(self, content: bytes, media_type: str, policy: str = PAGE, file: str = "") -> None:
        self._head(200, media_type, policy, length=len(content), file=file)
        self.wfile.write(content)

    def _refuse(self, status: int, says: str) -> None:
        content = json.dumps({"event": "error", "says": says}).encode() + b"\n"
        self._head(status, "application/json", PAGE, length=len(content))
        self.wfile.write(content)

    def _head(
        self, status: int, media_type: str, policy: str, length: int | None = None, file: str = ""
    ) -> None:
        self._begun = True
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Security-Policy", policy)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if file:
            self.send_header("Content-Disposition", f'attachment; filename="{file}"')
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error of the standard library in the same form as ours."""
        self._refuse(code, f"the request is invalid. {RELOAD}.")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests contain what users type."""


NAME = "([A-Za-z0-9_-]{16})"
ROUTES: tuple[tuple[str, Callable[..., None]], ...] = (
    ("/", Handler._page),
    (r"/files/([a-z.]+)", Handler._file),
    (r"/examples/([^/]{1,200})/([0-9]{1,3})", Handler._example),
    (rf"/results/{NAME}/report", Handler._report),
    (rf"/results/{NAME}/why(\.[a-z0-9]+)", Handler._download),
)


@cache
def _file(name: str) -> bytes:
    return resources.files("whyformer.explorer").joinpath(f"templates/{name}").read_bytes()


def load_first_model(explorer: Explorer) -> None:
    """Load the first model in the background, so that the first request is fast."""
    first = next(iter(explorer.offered.entries.values()))

    def load() -> None:
        with suppress(WhyformerError):  # the first request that uses the model reports the error
            first.load()

    threading.Thread(target=load, daemon=True).start()
