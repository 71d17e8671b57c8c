"""The packages that the explorer needs beyond those of whyformer itself."""

from __future__ import annotations

from importlib.util import find_spec

from whyformer.errors import OptionError

PACKAGES = ("starlette", "uvicorn")


def check_installed() -> None:
    """Raise OptionError if a package of the extra `explore` is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise OptionError(
            f"the explorer needs {' and '.join(missing)}, which cannot be imported",
            remedy="Run: pip install 'whyformer[explore]'",
        )
