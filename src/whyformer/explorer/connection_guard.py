"""Connections of uvicorn with absolute deadlines and a limit on their number.

uvicorn waits without end for the headers of a request. Here, a connection whose request does not
arrive in time is closed, however often it sends a byte. If too many connections are open, the
oldest one without a complete request makes room for the new one, so that slow clients cannot keep
others out. The rest of a request that was refused is dropped unparsed: a browser that is still
sending would not see the refusal if the connection were closed at once. All such connections
share one rate, so that a flood of large requests costs little time.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from whyformer.explorer.gate import INVALID
from whyformer.explorer.limits import Limits
from whyformer.explorer.security import HEADERS, PAGE

FULL = "too many connections are open. Try again in a few seconds."
LATE = "the request did not arrive in time. Try again."
SPARE = 5.0  # seconds: the application refuses a slow body first, in words
DROPPING = 10.0  # seconds for the rest of a request that was refused
DROPPED = 32_000_000  # bytes per second of all such requests together


class ConnectionGuard:
    """The open connections of one server."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[GuardedConnection, str] = {}  # address of the client, oldest first
        self._dropped_until = 0.0  # when the next bytes may be dropped

    def admit(self, connection: GuardedConnection) -> None:
        """Add a connection; close an incomplete one, or refuse the new one, if there are too many.

        The victim belongs to the client with the most connections.
        """
        address = connection.client[0] if connection.client else ""
        counts = Counter(self._open.values())
        own_full = counts[address] >= self.limits.client_connections
        if own_full or len(self._open) >= self.limits.connections:
            victims = [
                other
                for other, owner in self._open.items()
                if other.incomplete and (owner == address or not own_full)
            ]
            if not victims:
                connection.refuse(503, FULL)
                return
            victim = max(victims, key=lambda other: counts[self._open[other]])
            self.remove(victim)
            victim.give_up(503, FULL)
        self._open[connection] = address

    def renew(self, connection: GuardedConnection) -> None:
        """Put a connection behind the others: it has had an answer."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)

    def drop(self, size: int, now: float) -> float:
        """Return how long a connection waits after it dropped this many bytes."""
        self._dropped_until = max(self._dropped_until, now) + size / DROPPED
        return self._dropped_until - now

    def remove(self, connection: GuardedConnection) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)


class GuardedConnection(H11Protocol):
    """A connection that is closed when a request does not arrive, or a response is not read."""

    def __init__(self, guard: ConnectionGuard, **settings: Any) -> None:
        super().__init__(**settings)
        self._guard = guard
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._state = ""
        self._left = 0.0  # bytes of a refused request that are still to come

    @property
    def incomplete(self) -> bool:
        """Whether no whole request waits for its response."""
        return self._phase != "answering"

    @property
    def _phase(self) -> str:
        if self.cycle is not None and self.cycle.response_complete and self.cycle.more_body:
            return "rest"
        if self.cycle is None or self.cycle.response_complete:
            return "headers"
        return "body" if self.cycle.more_body else "answering"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline for the headers."""
        super().connection_made(transport)
        self._guard.admit(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all deadlines."""
        self._guard.remove(self)
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read, unless the request was refused already."""
        if self.transport.is_closing():
            return
        if self._phase != "rest":
            super().data_received(data)
            return
        self._left -= len(data)
        if self._left <= 0:
            self.transport.close()
            return
        self.flow.pause_reading()
        self.loop.call_later(self._guard.drop(len(data), self.loop.time()), self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def handle_events(self) -> None:
        """Read what has arrived; move to the next deadline if a part is complete."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Start the deadline for the next request, or for the rest of this one."""
        super().on_response_complete()
        if self._phase == "rest":
            length = dict(self.headers).get(b"content-length", b"")
            self._left = int(length) - len(self.cycle.body) if length else float("inf")
        self._guard.renew(self)
        self._watch()

    def pause_writing(self) -> None:
        """Start the deadline for the client to read."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._guard.limits.reading, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the deadline for the client to read."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def _watch(self) -> None:
        """Start the deadline of a phase when the phase begins; bytes do not move it."""
        phase = self._phase
        if phase == self._state:
            return
        self._state = phase
        if self._deadline is not None:
            self._deadline.cancel()
        limits = self._guard.limits
        seconds = {
            "headers": limits.headers,
            "body": limits.reading + SPARE,
            "rest": DROPPING,
        }.get(phase)
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.give_up, 408, LATE)

    def give_up(self, status: int, says: str) -> None:
        """Close the connection, with a sentence if no request is being answered."""
        if self._phase == "headers":
            self.refuse(status, says)
        elif self._phase == "rest":
            self.transport.close()
        else:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the same form as every other error."""
        self.refuse(400, INVALID)

    @property
    def _asks_for_head(self) -> bool:
        """Whether the request that is being read takes an answer without a body."""
        return self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"

    def refuse(self, status: int, says: str) -> None:
        """Send one sentence if that is still possible, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.transport.is_closing():
            content = json.dumps({"event": "error", "says": says}).encode() + b"\n"
            headers = {
                **HEADERS,
                "Content-Security-Policy": PAGE,
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
                "Connection": "close",
            }
            head = h11.Response(
                status_code=status, headers=list(headers.items()), reason=STATUS_PHRASES[status]
            )
            body = [] if self._asks_for_head else [h11.Data(data=content)]
            for part in (head, *body, h11.EndOfMessage()):
                self.transport.write(self.conn.send(part) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application must not answer a second time
            self.cycle.message_event.set()
        self.transport.close()
