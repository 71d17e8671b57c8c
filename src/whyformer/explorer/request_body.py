"""Read the body of an explain request: bounded in size, time and memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AsyncExitStack

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from whyformer.errors import InputError
from whyformer.explorer.catalogue import Catalogue
from whyformer.explorer.explain_request import RELOAD, ExplainRequest, read_request
from whyformer.explorer.limits import Limits, TooMuchError, TooSlowError

LARGE = 1 << 16  # bytes; a smaller body counts as no upload


class RequestReader:
    """Reads requests; only a few large bodies are received at the same time."""

    def __init__(self, offered: Catalogue, limits: Limits) -> None:
        self._offered, self._limits = offered, limits
        self._places = asyncio.Semaphore(limits.receiving)
        self._parsing = asyncio.Lock()

    def check_length(self, request: Request, check_room: Callable[[], None]) -> None:
        """Refuse a large request before its body is read; `check_room` raises if there is none."""
        length = _length(request)
        if length > self._limits.body:
            raise self._too_large(length)
        if length > LARGE:
            check_room()

    async def read(self, request: Request) -> ExplainRequest:
        """Return the request; raise InputError if it is wrong, too large or too slow."""
        async with AsyncExitStack() as held:
            body = await self._body(request, held)
            if len(body) <= LARGE:
                return read_request(body, self._offered, self._limits)
            async with self._parsing:  # one at a time, and not in the thread of the event loop
                return await run_in_threadpool(read_request, body, self._offered, self._limits)

    async def _body(self, request: Request, held: AsyncExitStack) -> bytes:
        body, has_place = bytearray(), False
        try:
            async with asyncio.timeout(self._limits.reading):
                async for part in request.stream():
                    body += part
                    if len(body) > self._limits.body:
                        raise self._too_large(len(body))
                    # Only now: a request that arrives byte by byte must not hold a place.
                    if len(body) > LARGE and not has_place:
                        await held.enter_async_context(self._places)
                        has_place = True
        except TimeoutError as error:
            raise TooSlowError(
                f"the request did not arrive within {self._limits.reading:g} seconds",
                remedy="Try again",
            ) from error
        return bytes(body)

    def _too_large(self, length: int) -> TooMuchError:
        return TooMuchError(
            f"the request has {length / 1e6:.1f} MB; images may have"
            f" {self._limits.upload / 1e6:g} MB",
            remedy="Make the image smaller",
        )


def _length(request: Request) -> int:
    """Return the length that the request announces; 0 if it announces none."""
    header = request.headers.get("Content-Length", "0")
    if not re.fullmatch("[0-9]{1,20}", header):
        raise InputError("the request has no valid length", remedy=RELOAD)
    return int(header)
