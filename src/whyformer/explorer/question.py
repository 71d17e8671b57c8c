"""What a browser asks, out of the JSON that it sent: known names and checked sizes only."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whyformer.errors import InputError
from whyformer.explorer.catalogue import Catalogue, Entry, Example
from whyformer.explorer.limits import Limits, TooMuchError
from whyformer.explorer.picture import picture
from whyformer.methods import methods
from whyformer.targets.specs import at_query, parse_target

FIELDS = frozenset({"model", "methods", "text", "second", "target", "query", "example", "image"})


@dataclass(frozen=True)
class Question:
    """Inputs and target as `explain` takes them."""

    entry: Entry
    methods: tuple[str, ...]
    inputs: Any
    target: Any = None


def read_question(body: bytes, offered: Catalogue, limits: Limits) -> Question:
    """The question, or an error that says which field is wrong."""
    asked = _object(body)
    entry = offered[asked.get("model")]
    names = _methods(asked.get("methods"), limits)
    target = at_query(
        _query(asked.get("query"), entry), _target(_text(asked, "target", limits.target))
    )
    number = asked.get("example")
    example = Example() if number is None else offered.example(entry.name, number)
    text, second = (_text(asked, name, limits.characters) for name in ("text", "second"))
    parts: dict[str, Any] = {}
    if "text" in entry.reads:
        parts["text"] = _said(text, second, entry)
    if "image" in entry.reads:
        parts["image"] = _image(asked.get("image"), example, entry, limits)
    return Question(entry, names, parts if len(parts) > 1 else next(iter(parts.values())), target)


def _object(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is no JSON; reload the page") from error
    if not isinstance(asked, dict) or not asked.keys() <= FIELDS:
        raise InputError(f"the request may have {', '.join(sorted(FIELDS))}; reload the page")
    return asked


def _methods(names: Any, limits: Limits) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("the methods are no list of names; reload the page")
    chosen = tuple(dict.fromkeys(names))
    if not chosen:
        raise InputError("no method is chosen; tick at least one")
    if len(chosen) > limits.methods:
        raise TooMuchError(
            f"{len(chosen)} methods are chosen, and {limits.methods} is the most; leave some out"
        )
    for name in chosen:
        methods[name[:80]]  # an unknown name is an error that lists those there are
    return chosen


def _text(asked: Mapping[str, Any], name: str, most: int) -> str:
    text = asked.get(name) or ""
    if not isinstance(text, str):
        raise InputError(f"the {name} is no text; reload the page")
    if len(text) > most:
        what = {"second": "second text"}.get(name, name)
        raise TooMuchError(
            f"the {what} has {len(text)} characters, and {most} is the most; shorten it"
        )
    return text


def _said(text: str, second: str, entry: Entry) -> str | tuple[str, str]:
    if not text.strip():
        raise InputError(f"{entry.name} reads text, and there is none; type one or pick an example")
    if not second.strip():
        return text
    if "image" in entry.reads:
        raise InputError(f"{entry.name} reads one text with an image; empty the second text")
    return text, second


def _image(given: Any, example: Example, entry: Entry, limits: Limits) -> Any:
    if given is None and example.image is not None:
        return picture(example.image.read_bytes(), limits)
    if given is None:
        raise InputError(
            f"{entry.name} reads an image, and there is none; drop one or pick an example"
        )
    if isinstance(given, str) and len(given) > limits.body:
        raise TooMuchError("the image file is too large; make it smaller")
    try:
        content = base64.b64decode(given, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise InputError("the image did not arrive whole; choose it again") from error
    return picture(content, limits)


def _target(text: str) -> Any:
    """None, a class index, a label, or a contrast."""
    if not text.strip():
        return None
    return parse_target(text)


def _query(number: Any, entry: Entry) -> int | None:
    """The object query of a detector, or None for the surest."""
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f"the object is {str(number)[:20]!r}; give a whole number from 0")
    if not entry.detects:
        raise InputError(f"{entry.name} finds no objects; leave the object out")
    return number
