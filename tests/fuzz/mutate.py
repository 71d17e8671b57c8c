"""Seeded mutations of bytes and of JSON values."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63), 10**9, 10**30, 0.5, float("inf"), float("nan"))
TEXTS = ("", "\0", "a" * 5000, "../x", "/etc/passwd", "\x1b[2J", "<script>", "ü\ud800", "1e999")
VALUES: tuple[Any, ...] = (*NUMBERS, *TEXTS, None, True, False, [], {}, [[]], [None], {"a": {}})
PIECES = (b"\0", b"\xff", b'"', b"\t", b",", b"\n", b"\r", b"(", b"[", b"{", b"}", b"]", b"null",
          b"-1", b"1e999", b"9" * 5000, b"[" * 3000, b"\x1b[2J", b"\xef\xbb\xbf")  # fmt: skip


def mutate_bytes(data: bytes, draw: random.Random) -> bytes:
    """Return the bytes with one to four changes."""
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data) + 1)
        length = draw.choice((0, 1, 2, 8, 64, 1024))
        piece = draw.choice((draw.choice(PIECES), draw.randbytes(draw.randint(1, 16))))
        kind = draw.randrange(6)
        if kind == 0:
            data = data[:at]  # cut off
        elif kind == 1:
            data = data[:at] + data[at + length :]
        elif kind == 2:
            data = data[:at] + piece + data[at:]
        elif kind == 3:
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == 4:
            data = data[:at] + data[at : at + length] * draw.choice((2, 50)) + data[at:]
        elif data:
            flipped = data[at % len(data)] ^ (1 << draw.randrange(8))
            data = data[: at % len(data)] + bytes([flipped]) + data[at % len(data) + 1 :]
    return data


def mutate_json(value: Any, draw: random.Random) -> Any:
    """Return a copy of a JSON value with one entry changed, removed or added."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name = draw.choice([*value])
        if draw.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: mutate_json(value[name], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        if draw.random() < 0.2:
            return value[:place] + value[place + 1 :]
        return [*value[:place], mutate_json(value[place], draw), *value[place + 1 :]]
    return deepcopy(draw.choice(VALUES))  # callers change what they get


def json_bytes(value: Any) -> bytes:
    """Return a JSON value as bytes, also one that no JSON writer should write."""
    return json.dumps(value).encode("utf-8", "surrogatepass")
