"""Who may ask, and what a browser may do with the answer."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from whyformer.errors import WhyformerError

PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
    " connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
# Scripts are held to digests by the report's own policy; both policies have to agree.
REPORT = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline';"
    " script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class ForeignRequestError(WhyformerError):
    """A request that did not come from the explorer's own page."""


def check_host(headers: Mapping[str, str], own: str) -> None:
    """Nothing; raises where the browser was led here under a name of somebody else's.

    A name can be made to point at this machine by whoever owns it, an address cannot.
    """
    host = _host(headers.get("Host", ""))
    if host in LOCAL or host == own.lower() or _is_address(host):
        return
    raise ForeignRequestError(
        "the explorer answers under its own address only; open the one that it printed"
    )


def check_origin(headers: Mapping[str, str]) -> None:
    """Nothing; raises where another site's page asks."""
    origin = headers.get("Origin", "")
    if origin and origin == f"http://{headers.get('Host', '')}":
        return
    raise ForeignRequestError("the explorer does what its own page asks, and nobody else's")


def is_local(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _host(given: str) -> str:
    """The name or address without the port; nothing where it is neither."""
    try:
        return urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
