"""Fingerprints of whyformer's own code: of a method, of a metric, and of what they all run on.

The fingerprint of a function covers its module and every whyformer module that this one imports,
directly or through others. So a changed method changes the names of its own units alone, and a
changed rule those of all methods that use it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.name
# Parts that show, read or report. What they hand to a model has a fingerprint of its own.
WITHOUT_EFFECT = {"cli", "datasets", "errors", "explorer", "registry", "render", "storage"}
EXPLAINING = "explain"  # the module behind every attribution
MEASURING = "evaluation.batch_evaluation"
FAMILIES = "models/families"  # found by their registry, not by import


@cache
def of_function(function: Callable[..., Any]) -> str:
    """Return the fingerprint of the code that decides what a function returns."""
    digest = hashlib.sha256()
    _add_function(digest, function)
    module = getattr(function, "__module__", "") or ""
    if module.partition(".")[0] == ROOT:
        digest.update(_of_modules((module.partition(".")[2],)).encode())
    return digest.hexdigest()[:32]


@cache
def of_shared_code() -> str:
    """Return the fingerprint of the code that every unit runs through."""
    families = sorted((PACKAGE / FAMILIES).glob("*.py"))
    names = tuple(_module_name(file) for file in families)
    return _of_modules((EXPLAINING, MEASURING, *names))


def _add_function(digest: Any, function: Callable[..., Any]) -> None:
    """Add the source of a function; its bytecode if it has no source file."""
    plain = inspect.unwrap(function)
    plain = getattr(plain, "func", plain)  # of a partial
    try:
        digest.update(inspect.getsource(plain).encode())
    except (OSError, TypeError):
        code = getattr(plain, "__code__", None)
        facts = repr(plain).encode() if code is None else code.co_code
        digest.update(facts)


@cache
def _of_modules(names: tuple[str, ...]) -> str:
    """The fingerprint of modules and of all that they import from this package."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found and name.partition(".")[0] not in WITHOUT_EFFECT:
            found.add(name)
            waiting += _imports(name)
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(f"{name}\0".encode() + _source(name))
    return digest.hexdigest()[:32]


@cache
def _source(name: str) -> bytes:
    """The source of a module of this package; empty if there is none."""
    file = _file(name)
    return file.read_bytes() if file else b""


@cache
def _imports(name: str) -> tuple[str, ...]:
    """The modules of this package that a module imports, named without the package."""
    return tuple(dict.fromkeys(_imported(name)))


def _imported(name: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(_source(name))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, _, rest = alias.name.partition(".")
                if top == ROOT and rest:
                    yield rest
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, name)
            if module is None:
                continue
            inside = [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
            modules = [one for one in inside if _file(one)]
            yield from modules
            if module and len(modules) < len(inside):
                yield module


def _absolute(node: ast.ImportFrom, name: str) -> str | None:
    """The module of a `from` import without the package; None if it is of another package."""
    if node.level:
        package = name.split(".") if _is_package(name) else name.split(".")[:-1]
        start = package[: len(package) - node.level + 1]
        return ".".join([*start, *([node.module] if node.module else [])])
    top, _, rest = (node.module or "").partition(".")
    return rest if top == ROOT else None


def _is_package(name: str) -> bool:
    return (PACKAGE / name.replace(".", "/") / "__init__.py").is_file()


@cache
def _file(name: str) -> Path | None:
    place = PACKAGE / name.replace(".", "/")
    for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if file.is_file():
            return file
    return None


def _module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
