"""Make the table of docs/models.md: what works on every model type, from the recorded matrix."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import whyformer as wf

RECORD = Path(__file__).parent.parent / "tests" / "matrix" / "record.json"
REASON = 140  # characters
YES, WARNS, NO, FAULT = "yes", "warns", "no", "fault"
WORDS = {"right": YES, "warned": WARNS, "refused": NO}
COLUMNS = ("type", "class tried", "default", "conserving", "attention", "relevance", "why not")


def models() -> list[tuple[str, ...]]:
    """Return one row per model type: type, class, a word for each kind of method, the reason."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = [_row(name, line) for name, line in sorted(record["types"].items())]
    others = [
        (f"`{name}`", "not tried", "", "", "", "", _short(reason))
        for name, reason in sorted(record["unbuilt"].items())
    ]
    return [*rows, *others]


def kinds() -> dict[str, list[str]]:
    """Return the methods of each column."""
    known = {name: one for name, one in wf.methods().items() if one.in_all}
    return {
        "conserving": [n for n, one in known.items() if one.sums and "attention" not in one.needs],
        "attention": [
            n for n, one in known.items() if "attention" in one.needs and one.rules is None
        ],
        "relevance": [n for n, one in known.items() if one.rules == "relevance"],
    }


def _row(name: str, line: Mapping[str, Any]) -> tuple[str, ...]:
    states = {method: state for state, names in line["states"].items() for method in names}
    says = {method: text for text, names in line["says"].items() for method in names}
    groups = [_word(states, names) for names in (["auto"], *kinds().values())]
    reason = says.get("auto") or next(iter(says.values()), "")
    return (f"`{name}`", f"`{line['class']}`", *groups, _short(reason, line["class"]))


def _word(states: Mapping[str, str], methods: Iterable[str]) -> str:
    """Return one word for a group of methods; a count if they differ."""
    found = [WORDS.get(states[name], FAULT) for name in methods if name in states]
    if len(set(found)) <= 1:
        return found[0] if found else ""
    if FAULT in found:
        return FAULT
    right = found.count(YES)
    return f"{right} of {len(found)}" if right else WARNS


def _short(reason: str, class_name: str = "") -> str:
    """Return the first sentence of a reason, as one cell of a table."""
    text = re.sub(r"^\w+Error: ", "", reason)
    text = re.sub(rf"^{class_name}\b", "it", text) if class_name else text
    text = re.split(r"(?<=[a-z')\]])\. ", text)[0].replace("|", "/").replace("\n", " ")
    text = text.replace("<", "(").replace(">", ")").replace("[", "(").replace("]", ")")
    return text if len(text) <= REASON else f"{text[: REASON - 1].rstrip()}…"
