"""Write the tables of README.md and docs/*.md from the registries.

    python docs/tables.py

A table stands between `<!-- name -->` and `<!-- /name -->`. A test fails if one is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # run as a script, only docs/ is there

import whyformer as wf
from docs import models_table
from whyformer.attribution import views
from whyformer.datasets import datasets
from whyformer.models.families import Family

ROOT = Path(__file__).parent.parent
Row = Sequence[str]


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(names: Iterable[str]) -> str:
    """Return the names as inline code, between commas."""
    return ", ".join(f"`{name}`" for name in names)


# Columns of README's table: heading, measure and task in docs/results.md.
MEASURES = (
    ("text ↓", "deletion", "SST-2"),
    ("image ↓", "perturbation_positive", "ImageNet"),
    ("object ↑", "segmentation/miou", "Pets"),
)


def methods_in_short() -> str:
    """Return the table of methods: name, title, paper, and what docs/results.md measured."""
    measured = [measured_values(measure, task) for _, measure, task in MEASURES]
    rows = [
        (
            f"[`{m.name}`](docs/methods/{m.name}.md)",
            m.title,
            *(column.get(m.name, "") for column in measured),
        )
        for m in wf.methods().values()
    ]
    return table(("method", "what it gives", *(heading for heading, *_ in MEASURES)), rows)


def measured_values(measure: str, task: str) -> dict[str, str]:
    """Return the figure of each method on the whole sets of docs/results.md."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("<!-- whole-methods -->")
    _, _, rest = rest.partition(f"\n**{measure}** ")
    lines = [line for line in rest.split("\n\n")[1].splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    column = head.index(task)
    return {row[0]: row[column].partition(" ")[0] for row in rows}


def methods_in_full() -> str:
    """Return the table of methods: name with a link to its page, promises, options."""
    rows = [
        (
            f"[`{m.name}`](methods/{m.name}.md)",
            ", ".join(m.promises) or "nothing",
            code(f"{option}={default!r}" for option, default in m.options.items()),
        )
        for m in wf.methods().values()
    ]
    return table(("method", "promises", "options and their defaults"), rows)


def method_facts(name: str) -> str:
    """Return what the registry knows about a method, for its page."""
    known = wf.methods()[name]
    options = [f"{option}={default!r}" for option, default in known.options.items()]
    rows = [
        ("paper", known.paper),
        ("needs", ", ".join(known.needs) or "the output only"),
        ("promises", ", ".join(known.promises) or "nothing"),
        ("signed", "yes" if known.signed else "no: never negative"),
        ("options", code(options) or "none"),
        ("call", code([f'wf.explain(inputs, model, method="{name}")'])),
    ]
    return f"{known.title}.\n\n{table(('property', 'value'), rows)}"


def families() -> str:
    """Return the table of families: name, models, streams, stacks, model types."""
    rows = [
        (code([f.name]), f.title, stream_names(f), stack_names(f), code(f.model_types or f.classes))
        for f in wf.families().values()
    ]
    return table(("family", "models", "streams", "stacks", "`model_type`"), rows)


def stream_names(family: Family) -> str:
    """Return the streams that the family reads; optional ones stand in brackets."""
    names = [f"({s.stream})" if s.optional else s.stream for s in family.sources]
    return ", ".join(names or [family.stream]) + ", causal" * family.causal


def stack_names(family: Family) -> str:
    """Return the family's stacks, and its cross attentions as arrows."""
    stacks = [stack.name for stack in family.all_stacks]
    pairs = [p for value in family.attention.values() for p in stack_pairs(value) if p[0] != p[1]]
    arrows = [f"{asking} → {answering}" for asking, answering in dict.fromkeys(pairs)]
    return "; ".join([", ".join(stacks), *arrows])


def stack_pairs(value: tuple[Any, Any]) -> tuple[tuple[str, str], ...]:
    """Return the (asking, answering) pairs of one entry of a family's attention table."""
    return value if isinstance(value[0], tuple) else (value,)


def metrics() -> str:
    """Return the table of metrics: name, title, direction, paper."""
    rows = [(code([m.name]), m.title, m.better, m.paper) for m in wf.metrics().values()]
    return table(("metric", "what it measures", "better", "paper"), rows)


def dataset_readers() -> str:
    """Return the table of datasets: name, title."""
    rows = [(code([name]), known.title) for name, known in datasets.items()]
    return table(("dataset", "files"), rows)


def view_names() -> str:
    """Return the table of views: name, title."""
    rows = [(code([name]), view.title) for name, view in views.items()]
    return table(("view", "what it gives"), rows)


def model_types() -> str:
    """Return the table of model types: what works on each, from the recorded matrix."""
    return table(models_table.COLUMNS, models_table.models())


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("README.md", "methods"): methods_in_short,
    ("docs/methods.md", "methods"): methods_in_full,
    **{(f"docs/methods/{name}.md", "facts"): partial(method_facts, name) for name in wf.methods()},
    ("docs/families.md", "families"): families,
    ("docs/models.md", "models"): model_types,
    ("docs/evaluation.md", "metrics"): metrics,
    ("docs/evaluation.md", "datasets"): dataset_readers,
    ("docs/pictures.md", "views"): view_names,
}


METHOD_PAGE = """# {name}

<!-- facts -->
<!-- /facts -->

![Scores of {name} for a sentence and a digit](../images/methods/{name}.svg)

## How it works

## When it is wrong
"""


def start_method_pages() -> None:
    """Write the start of a page for every method that has none."""
    for name in wf.methods():
        page = ROOT / "docs" / "methods" / f"{name}.md"
        if not page.exists():
            page.write_text(METHOD_PAGE.format(name=name), encoding="utf-8")


def page_with_table(page: str, name: str) -> str:
    """Return the text of a page with its table brought up to date."""
    text = (ROOT / page).read_text(encoding="utf-8")
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
    assert place.search(text), f"{page} has no place for the table '{name}'"
    return place.sub(lambda match: f"{match[1]}{TABLES[page, name]()}\n{match[2]}", text)


if __name__ == "__main__":
    start_method_pages()
    for page, name in TABLES:
        (ROOT / page).write_text(page_with_table(page, name), encoding="utf-8")
