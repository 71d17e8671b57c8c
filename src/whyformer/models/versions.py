"""Installed versions of packages, for provenance."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def version_of(package: str) -> str:
    """Return the installed version of a package, "unknown" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
