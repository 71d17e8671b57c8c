"""The gate of the application: who may enter, headers of every response, errors as sentences."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whyformer.errors import InputError, WhyformerError
from whyformer.explorer.error_text import error_text
from whyformer.explorer.explain_request import RELOAD
from whyformer.explorer.jobs import INTERNAL_ERROR
from whyformer.explorer.limits import BusyError, TooMuchError, TooSlowError
from whyformer.explorer.security import HEADERS, PAGE, ForeignRequestError, check_host

INVALID = f"the request is invalid. {RELOAD}."
UNKNOWN = "there is no such page. Go back to the explorer."


class NotFoundError(InputError):
    """There is nothing at this address."""


STATUS: dict[type[WhyformerError], int] = {
    NotFoundError: 404,
    ForeignRequestError: 403,
    TooSlowError: 408,
    TooMuchError: 413,
    BusyError: 503,
}


class Gate:
    """Checks the host, adds the headers that protect, and turns every error into one sentence."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_protected(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in {**HEADERS, "Content-Security-Policy": PAGE}.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            if not scope["path"].startswith("/"):
                answer: Response = refuse(400, INVALID)
            else:
                check_host(Headers(scope=scope), self._hosts)
                await self._app(scope, receive, send_protected)
                return
        except ClientDisconnect:
            return
        except WhyformerError as error:
            answer = refuse_with(error)
        except Exception as error:
            traceback.print_exc()
            answer = refuse(500, INTERNAL_ERROR.format(name=type(error).__name__))
        if not begun:
            await answer(scope, receive, send_protected)


def refuse(status: int, says: str) -> Response:
    """Return an error response with one sentence."""
    return JSONResponse({"event": "error", "says": says}, status)


def refuse_with(error: WhyformerError) -> Response:
    """Return the response for an error of the user."""
    status = next((STATUS[kind] for kind in STATUS if isinstance(error, kind)), 400)
    return refuse(status, error_text(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refuse(error.status_code, UNKNOWN if error.status_code == 404 else INVALID)


async def _own_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WhyformerError)
    return refuse_with(error)


HANDLERS: dict[Any, Callable[..., Any]] = {
    HTTPException: _http_error,
    WhyformerError: _own_error,
}
