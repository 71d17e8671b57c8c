"""Limits for the sizes in a config.json: a few bytes must not build a model without end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whyformer.errors import ModelError

LARGEST_FILE = 50_000_000  # bytes
# transformers builds something for each of these, one after the other, before it reads weights.
LIMITS = (
    (re.compile(r"layers?$|blocks$|depths?$|stages$"), 5_000),
    (re.compile(r"labels$|experts?$|queries$|heads$"), 1_000_000),
)


def check_config(file: Path) -> None:
    """Raise ModelError if the config is too large a file, is no JSON, or states absurd sizes."""
    if file.stat().st_size > LARGEST_FILE:
        raise _error(file, f"has {file.stat().st_size:,} bytes")
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _error(file, f"is not JSON ({type(error).__name__})") from error
    for name, number in _numbers(config):
        for pattern, limit in LIMITS:
            if number > limit and pattern.search(name):
                raise _error(file, f"states {name} = {number:,}; at most {limit:,} are loaded")


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Each number in a config with its name; those of a list have the name of the list."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _numbers(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _numbers(one, name)
    elif isinstance(value, int | float):
        yield name, value


def _error(file: Path, fault: str) -> ModelError:
    return ModelError(
        f"{file} {fault}",
        argument="model",
        remedy="Copy the file again, or save the model again with save_pretrained",
    )
