"""Packages that are not installed with whyformer, imported where somebody asks for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from whyformer.errors import InputError


def import_package(name: str, purpose: str) -> Any:
    """Return the package; raise InputError with the command to install it if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"{purpose} needs the package {name}, which cannot be imported ({error})",
            remedy=f"Run: pip install {name}",
        ) from error
