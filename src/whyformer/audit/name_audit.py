"""The bias of names (after Ali et al., ICML 2022): templates x names, relevance by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from whyformer.audit.bootstrap import Bootstrap
from whyformer.audit.class_target import ClassTarget
from whyformer.audit.explainer import BATCH, ExplainedText, Explainer, Tick, check_methods, counted
from whyformer.audit.findings import Audit, AuditExample, AuditTable
from whyformer.audit.grid import NameGrid
from whyformer.audit.name_summary import charts, headline
from whyformer.audit.name_tables import name_tables
from whyformer.audit.token_spans import tokens_within
from whyformer.audit.word_lists import Template, WordGroups, read_names, read_templates

DEFAULT_NAMES = "us_gender"
FEW = 5  # fewer names or templates than this make an interval that says little
FIRST = ("groups", "differences", "swaps", "extremes")


def audit_names(
    model: Any = None,
    *,
    names: Any = DEFAULT_NAMES,
    templates: Any = None,
    methods: str | Sequence[str] = "lrp_ah_ln",
    target: Any = None,
    processor: Any = None,
    per_group: int | None = None,
    truncation: bool = False,
    batch: int = BATCH,
    draws: int = 1000,
    seed: int = 0,
    tick: Tick | None = None,
) -> Audit:
    """How much of a decision rests on a name, by group of names, as an `Audit`.

    `names` is a bundled list, a file or {group: [name, ...]}; `templates` a file or a list of
    sentences with {name} in them. Every template is explained with every name, always for the
    same class, so that relevance can be compared: `target`, or else the label that reads like
    "positive", or else the last one. `tick(done, total)` hears of progress.
    """
    chosen = check_methods(methods)
    listed = read_names(names).first(per_group)
    sentences = read_templates(templates)
    bootstrap = Bootstrap(draws, seed)
    explainer = Explainer(model, processor, truncation=truncation, batch=batch)
    question = ClassTarget(explainer.module, target)
    filled = _sentences(sentences, listed)
    rows: list[Mapping[str, Any]] = []
    for number, method in enumerate(chosen):
        part = counted(tick, number * len(filled), len(chosen) * len(filled))
        rows += _rows(explainer, method, question, sentences, listed, filled, part)
    grids = {method: NameGrid(rows, method, sentences, listed) for method in chosen}
    tables = name_tables(grids, bootstrap, question.__name__)
    return Audit(
        kind="names",
        title=f"Names in {explainer.name}",
        headline=headline(tables, question.__name__),
        tables=tables,
        rows=tuple(rows),
        settings={
            "model": explainer.name,
            "methods": list(chosen),
            "target": question.__name__,
            "names": listed.name,
            "names source": listed.source or "given as a mapping",
            "groups": {group: list(found) for group, found in listed.groups.items()},
            "templates": [{"text": t.text, "tone": t.tone} for t in sentences],
            "truncation": truncation,
            "draws": draws,
            "seed": seed,
            "level": bootstrap.level,
            "versions": explainer.versions,
        },
        notes=_notes(grids[chosen[0]], tables),
        charts=charts(tables),
        examples=_examples(explainer, chosen[0], question, rows),
        first=FIRST,
    )


Places = tuple[tuple[int, int], ...]


def _sentences(templates: Sequence[Template], names: WordGroups) -> dict[tuple[str, Places], None]:
    """Every sentence with its name in it and the places of the name, each once."""
    every = dict.fromkeys(name for group in names.groups.values() for name in group)
    return dict.fromkeys(template.fill(name) for template in templates for name in every)


def _rows(
    explainer: Explainer,
    method: str,
    question: ClassTarget,
    templates: Sequence[Template],
    names: WordGroups,
    filled: Mapping[tuple[str, Places], None],
    tick: Tick | None,
) -> list[Mapping[str, Any]]:
    """A row for every template, group and name; a name of two groups is explained once."""
    sentences = list(filled)
    measured = {
        sentences[index]: _measures(found, sentences[index][1], question)
        for index, found in explainer([text for text, _ in sentences], method, question, tick)
    }
    return [
        {
            "method": method,
            "template": at,
            "tone": template.tone,
            "group": group,
            "name": name,
            "text": template.fill(name)[0],
            **measured[template.fill(name)],
        }
        for at, template in enumerate(templates)
        for group, members in names.groups.items()
        for name in members
    ]


def _measures(found: ExplainedText, places: Places, question: ClassTarget) -> dict[str, Any]:
    """What one explanation says of the name that stands at these places."""
    scores, shares = found.scores, found.shares
    own = sorted({i for start, stop in places for i in tokens_within(found.spans, 0, start, stop)})
    answer = found.answer
    assert answer is not None
    conservation = found.attribution.conservation
    return {
        # Of one occurrence: a sentence may have the name twice.
        "tokens": len(tokens_within(found.spans, 0, *places[0])),
        "relevance": sum(scores[i] for i in own),
        "share": sum(shares[i] for i in own),
        "even_share": len(own) / len(scores),
        "output": answer.value,
        "probability": answer.probability,
        "prediction": answer.said,
        "decided": None if answer.said is None else answer.said == question.label,
        "conservation": None if conservation is None else float(conservation[0]),
    }


def _notes(grid: NameGrid, tables: Mapping[str, AuditTable]) -> tuple[str, ...]:
    """What a reader has to know about these figures before believing them."""
    notes = list(grid.names.notes)
    lengths = {group: fmean(grid.tokens(group)) for group in grid.groups}
    told = ", ".join(f"{group} {length:.2f}" for group, length in lengths.items())
    if max(lengths.values()) - min(lengths.values()) > 0.05:
        notes.append(
            f"Names are cut into tokens, on average: {told}. A name of more tokens has more places"
            " to carry relevance and is rarer in what the model read: compare the column 'same"
            " length' before you speak of groups."
        )
    lost = sum(not row["tokens"] for group in grid.groups for row in grid.rows(group))
    if lost:
        notes.append(
            f"In {lost} sentences the name is behind the part that the model reads: it counts as"
            " 0 there. Use shorter templates."
        )
    fewest = min(len(names) for names in grid.names.groups.values())
    for count, of in ((fewest, "to a group of names"), (len(grid.templates), "templates")):
        if count < FEW:
            notes.append(f"Only {count} {of}: the intervals are narrower than they should be.")
    if "swaps" not in tables and len(grid.groups) > 1:
        notes.append("The model gives one number and no classes: nothing can flip.")
    return tuple(notes)


def _examples(
    explainer: Explainer, method: str, question: ClassTarget, rows: Sequence[Mapping[str, Any]]
) -> tuple[AuditExample, ...]:
    """The sentences in which a name speaks most for the target, most against it, and loudest."""
    own = [row for row in rows if row["method"] == method]
    wanted = {
        "Here the name speaks most for the target": max(own, key=lambda row: row["relevance"]),
        "Here the name speaks most against it": min(own, key=lambda row: row["relevance"]),
        "Here the name has its largest share": max(own, key=lambda row: row["share"]),
    }
    found = []
    for caption, row in wanted.items():
        ((_, one),) = explainer([row["text"]], method, question)
        text = f"{caption}: {row['name']} ({row['group']}), relevance {row['relevance']:+.4f}."
        found.append(AuditExample(text, one.attribution))
    return tuple(found)
