"""Serve the explorer with uvicorn, on one address."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette

from whyformer.errors import WhyformerError
from whyformer.explorer.app import Explorer
from whyformer.explorer.connection_guard import ConnectionGuard, GuardedConnection

HEADER_BYTES = 32_768  # of one request
BACKLOG = 512  # connections that wait to be accepted


class ExplorerServer:
    """An application on an address; `run` serves it until `stop` or Ctrl+C."""

    def __init__(
        self,
        app: Starlette,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        root_path: str = "",
        proxied: bool = False,
    ) -> None:
        """Bind the address, so that an error shows at once.

        Args:
            app: The application that `create_app` returned.
            host: The address to listen on.
            port: The port; 0 for any free one.
            root_path: The path under which a proxy shows the explorer; the proxy removes it.
            proxied: Read the addresses of clients from the headers of a proxy on this machine.
        """
        self.host = host
        self.explorer: Explorer = app.state.explorer
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        protocol: Any = partial(GuardedConnection, ConnectionGuard(self.explorer.limits))
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=protocol,
                ws="none",
                lifespan="on",
                log_config=None,  # requests contain what users type: nothing is logged
                log_level="critical",
                access_log=False,
                server_header=False,
                root_path=root_path,
                proxy_headers=proxied,
                backlog=BACKLOG,
                h11_max_incomplete_event_size=HEADER_BYTES,
                timeout_graceful_shutdown=1,
            )
        )

    @property
    def url(self) -> str:
        """The address of the page."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def run(self) -> None:
        """Serve until `stop` or Ctrl+C."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End `run` soon; jobs are cancelled."""
        self._server.should_exit = True

    def close(self) -> None:
        """Free the address of a server that was never run."""
        self._socket.close()


def load_first_model(explorer: Explorer) -> None:
    """Load the first model in the background, so that the first request is fast."""
    first = next(iter(explorer.offered.entries.values()))

    def load() -> None:
        with suppress(WhyformerError):  # the first request that uses the model reports the error
            first.load()

    threading.Thread(target=load, daemon=True).start()
