"""Security: who may send requests, and the headers that restrict what a browser does."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from whyformer.errors import WhyformerError

PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
    " connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
# The report's own policy allows scripts by digest only; a browser applies both policies.
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
    """A request that does not come from the explorer's own page."""


def check_host(headers: Mapping[str, str], hosts: Collection[str]) -> None:
    """Raise ForeignRequestError if the Host header is a foreign name (DNS rebinding).

    The owner of a name can point it at this machine; an IP address cannot be redirected.
    """
    host = _host(headers.get("Host", ""))
    if host in LOCAL or host in hosts or _is_address(host):
        return
    raise ForeignRequestError(
        "the explorer answers only at its own address",
        remedy="Open the address that it printed",
    )


def check_origin(headers: Mapping[str, str], hosts: Collection[str]) -> None:
    """Raise ForeignRequestError if another site's page sent the request.

    A proxy may speak HTTPS to the browser, and may send its own Host header.
    """
    scheme, _, place = headers.get("Origin", "").partition("://")
    known = place == headers.get("Host", "") or _host(place) in hosts
    if scheme in ("http", "https") and place and known:
        return
    raise ForeignRequestError("the explorer accepts requests only from its own page")


def is_local(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _host(header: str) -> str:
    """Return the name or address without the port; "" if it is invalid."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
