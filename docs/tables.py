"""Writes the tables of README.md and docs/*.md that repeat what the registries hold.

    python docs/tables.py

A table stands between `<!-- name -->` and `<!-- /name -->`; a test fails where one is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import whyformer as wf
from whyformer.datasets import datasets
from whyformer.models.families import Family

ROOT = Path(__file__).parent.parent
Row = Sequence[str]


def table(head: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(names: Iterable[str]) -> str:
    """The names set as code."""
    return ", ".join(f"`{name}`" for name in names)


def methods_in_short() -> str:
    """Every method with what it does and where it comes from."""
    rows = [(code([m.name]), m.title, m.paper) for m in wf.methods().values()]
    return table(("method", "what it gives", "paper"), rows)


def methods_in_full() -> str:
    """Every method with its promises and its options, linked to its section."""
    rows = [
        (
            f"[`{m.name}`](#{m.name})",
            ", ".join(m.promises) or "nothing",
            code(f"{option}={default!r}" for option, default in m.options.items()),
        )
        for m in wf.methods().values()
    ]
    return table(("method", "promises", "options and their defaults"), rows)


def families() -> str:
    """Every family with the models that it covers, what they read, and where it goes."""
    rows = [
        (code([f.name]), f.title, _streams(f), _stacks(f), code(f.model_types or f.classes))
        for f in wf.families().values()
    ]
    return table(("family", "models", "streams", "stacks", "`model_type`"), rows)


def _streams(family: Family) -> str:
    """The streams that its models read, and in brackets one that they can do without."""
    named = [f"({s.stream})" if s.optional else s.stream for s in family.sources]
    return ", ".join(named or [family.stream]) + ", causal" * family.causal


def _stacks(family: Family) -> str:
    """The sequences that they make of them, and who asks whom."""
    stacks = [stack.name for stack in family.all_stacks]
    pairs = [p for said in family.attention.values() for p in _pairs(said) if p[0] != p[1]]
    asks = [f"{a} → {b}" for a, b in dict.fromkeys(pairs)]
    return "; ".join([", ".join(stacks), *asks])


def _pairs(said: tuple[Any, Any]) -> tuple[tuple[str, str], ...]:
    return said if isinstance(said[0], tuple) else (said,)


def metrics() -> str:
    """Every metric with what it says, which way is better, and where it comes from."""
    rows = [(code([m.name]), m.title, m.better, m.paper) for m in wf.metrics().values()]
    return table(("metric", "what it says", "better", "paper"), rows)


def readers() -> str:
    """Every dataset that has a reader."""
    rows = [(code([name]), known.title) for name, known in datasets.items()]
    return table(("dataset", "files"), rows)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("README.md", "methods"): methods_in_short,
    ("docs/methods.md", "methods"): methods_in_full,
    ("docs/families.md", "families"): families,
    ("docs/evaluation.md", "metrics"): metrics,
    ("docs/evaluation.md", "datasets"): readers,
}


def updated(page: str, name: str) -> str:
    """The text of a page with its table as it should be."""
    text = (ROOT / page).read_text(encoding="utf-8")
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
    assert place.search(text), f"{page} has no place for the table '{name}'"
    return place.sub(lambda found: f"{found[1]}{TABLES[page, name]()}\n{found[2]}", text)


if __name__ == "__main__":
    for page, name in TABLES:
        (ROOT / page).write_text(updated(page, name), encoding="utf-8")
