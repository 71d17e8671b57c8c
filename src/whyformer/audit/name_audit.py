"""The names audit (after Ali et al., ICML 2022): templates x names, relevance by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any

from whyformer.audit.class_target import ClassTarget, Prediction, choose_class, predictions
from whyformer.audit.explain_samples import SampleResults, explain_samples
from whyformer.audit.explainer import BATCH, ExplainedText, check_batch, check_methods
from whyformer.audit.findings import Audit, AuditExample, AuditTable
from whyformer.audit.grid import NameGrid
from whyformer.audit.name_summary import charts, headline
from whyformer.audit.name_tables import name_tables
from whyformer.audit.sample_explainer import ExplainSettings, SampleExplainer
from whyformer.audit.token_spans import tokens_within
from whyformer.audit.word_lists import Template, WordGroups, read_names, read_templates
from whyformer.batching.progress import Progress, without_progress
from whyformer.datasets import Sample
from whyformer.models.load import load_model
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.workers import EngineOptions

DEFAULT_NAMES = "us_gender"
DOING = "explaining for the audit of names"
FEW = 5  # with fewer names or templates than this, an interval is unreliable
PLACES = "places of the name"  # in the extras of a sample
FIRST = ("groups", "differences", "swaps", "extremes")

Places = tuple[tuple[int, int], ...]


def run_name_audit(
    model: Any = None,
    *,
    names: Any = DEFAULT_NAMES,
    templates: Any = None,
    methods: str | Sequence[str] = "libragrad",
    target: Any = None,
    processor: Any = None,
    per_group: int | None = None,
    truncation: bool = False,
    batch: int = BATCH,
    draws: int = 1000,
    seed: int = 0,
    engine: EngineOptions | None = None,
) -> Iterator[Progress | Audit]:
    """Measure how much a decision depends on a name, by group of names.

    Every template is explained with every name, always for the same class, so that the relevance
    of names can be compared.

    Args:
        model: A text classifier: a module, a folder, a name; the bundled one if None.
        names: A bundled list, a file, or {group: [name, ...]}.
        templates: A file or a list of sentences that contain {name}; bundled ones if None.
        methods: The method or methods to explain with.
        target: The class: a label, an index or a contrast. If None, the label that reads like
            "positive", or else the last class.
        processor: The model's tokenizer, if it does not come with the model.
        per_group: Use only this many names of each group.
        truncation: Whether to cut texts that are too long for the model.
        batch: The most texts in one batch.
        draws: Bootstrap draws behind each interval.
        seed: The seed of the draws.
        engine: Where to explain: in this process if None, in several, or on a Ray cluster. The
            findings are the same.

    Yields:
        Progress after every batch, and the `Audit` at the end: tables, sentences, charts, examples,
        and one row per explanation. `audit_names` returns the audit alone.

    Raises:
        InputError: A list cannot be read, or the model has no tokenizer.
        OptionError: `methods`, `batch` or `draws` is out of range.
        TargetError: The model has no classes, or not this one.

    Example:
        >>> names = {"a": ["Anna", "Mary"], "b": ["Bob", "John"]}
        >>> found = audit_names(names=names, templates=["{name} plays the lead."], draws=10)
        >>> sorted({row["group"] for row in found.rows})
        ['a', 'b']
    """
    chosen = check_methods(methods)
    groups = read_names(names).first(per_group)
    sentences = read_templates(templates)
    bootstrap = Bootstrap(draws, seed)
    check_batch(batch)
    settings = ExplainSettings("text", truncation, batch)
    explainer = SampleExplainer(load_model(model, processor, "text"), settings)
    filled = _fill_templates(sentences, groups)
    samples = [Sample(text, text, extras={PLACES: places}) for text, places in filled]
    compared = _compared_class(explainer, filled[0][0], target)
    steps = len(chosen) * len(samples)
    yield Progress(DOING, 0, steps)
    for event in explain_samples(
        explainer.loaded,
        settings,
        partial(_measure_names, chosen, compared),
        samples,
        engine or EngineOptions(),
    ):
        if isinstance(event, SampleResults):
            explained = event
        else:
            yield Progress(DOING, event * len(chosen), steps)
    rows = [
        row
        for method in chosen
        for row in _rows(
            method,
            sentences,
            groups,
            {filled[place]: one[method] for place, one in explained.findings.items()},
        )
    ]
    grids = {method: NameGrid(rows, method, sentences, groups) for method in chosen}
    tables = name_tables(grids, bootstrap, compared.name)
    examples = _examples(explainer, chosen[0], compared, rows)
    yield Audit(
        kind="names",
        title=f"Names in {explainer.name}",
        headline=headline(tables, compared.name),
        tables=tables,
        rows=tuple(rows),
        settings={
            "model": explainer.name,
            "methods": list(chosen),
            "target": compared.name,
            "names": groups.name,
            "names source": groups.source or "a mapping",
            "groups": {group: list(members) for group, members in groups.groups.items()},
            "templates": [{"text": t.text, "tone": t.tone} for t in sentences],
            "truncation": truncation,
            "draws": draws,
            "seed": seed,
            "level": bootstrap.level,
            "versions": dict(examples[0].attribution.provenance.get("versions", {})),
        },
        notes=_notes(grids[chosen[0]], tables),
        charts=charts(tables),
        examples=examples,
        first=FIRST,
    )


audit_names = without_progress(run_name_audit, "audit_names")


def _fill_templates(templates: Sequence[Template], names: WordGroups) -> list[tuple[str, Places]]:
    """Every sentence with a name in it and the places of the name, each once."""
    every = dict.fromkeys(name for group in names.groups.values() for name in group)
    return list(dict.fromkeys(template.fill(name) for template in templates for name in every))


def _rows(
    method: str,
    templates: Sequence[Template],
    names: WordGroups,
    measures: Mapping[tuple[str, Places], Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    """One row per template, group and name; a name in two groups was explained once."""
    return [
        {
            "method": method,
            "template": at,
            "tone": template.tone,
            "group": group,
            "name": name,
            "text": template.fill(name)[0],
            **measures[template.fill(name)],
        }
        for at, template in enumerate(templates)
        for group, members in names.groups.items()
        for name in members
    ]


def _compared_class(explainer: SampleExplainer, text: str, target: Any) -> ClassTarget:
    """The class to compare; one text shows how many classes there are."""
    assert explainer.texts is not None
    count = explainer.texts.predict([text]).shape[1]
    return choose_class(explainer.loaded.module, count, target)


def _measure_names(
    methods: Sequence[str],
    compared: ClassTarget,
    explainer: SampleExplainer,
    samples: Sequence[Sample],
) -> list[dict[str, dict[str, Any]]]:
    """For every sentence its measures by method."""
    assert explainer.texts is not None
    scores = explainer.texts.predict([sample.inputs for sample in samples])
    predicted = predictions(scores, compared, explainer.loaded.module)
    measures: list[dict[str, dict[str, Any]]] = [{} for _ in samples]
    for method in methods:
        found = explainer.explain_texts(samples, method, compared.target)
        for own, (sample, text), one in zip(measures, found, predicted, strict=True):
            own[method] = _measures(text, sample.extras[PLACES], one, compared)
    return measures


def _measures(
    found: ExplainedText, places: Places, prediction: Prediction, compared: ClassTarget
) -> dict[str, Any]:
    """The measures of one explanation, for the name at these places."""
    scores, shares = found.scores, found.shares
    own = sorted({i for start, stop in places for i in tokens_within(found.spans, 0, start, stop)})
    conservation = found.attribution.conservation
    decided = None if prediction.label is None else prediction.label == compared.label
    return {
        # Tokens of one occurrence: a sentence may have the name twice.
        "tokens": len(tokens_within(found.spans, 0, *places[0])),
        "relevance": sum(scores[i] for i in own),
        "share": sum(shares[i] for i in own),
        "even_share": len(own) / len(scores),
        "output": float(found.attribution.output[0]),
        "probability": prediction.probability,
        "prediction": prediction.label,
        "decided": decided,
        "conservation": None if conservation is None else float(conservation[0]),
    }


def _notes(grid: NameGrid, tables: Mapping[str, AuditTable]) -> tuple[str, ...]:
    """Warnings that a reader of the tables needs."""
    notes = list(grid.names.notes)
    lengths = {group: fmean(grid.tokens(group)) for group in grid.groups}
    averages = ", ".join(f"{group} {length:.2f}" for group, length in lengths.items())
    if max(lengths.values()) - min(lengths.values()) > 0.05:
        notes.append(
            f"Tokens per name, on average: {averages}. A name of more tokens has more places to"
            " carry relevance, and is rarer in training data. Check the column 'same length'"
            " before you draw conclusions about groups."
        )
    lost = sum(not row["tokens"] for group in grid.groups for row in grid.rows(group))
    if lost:
        notes.append(
            f"In {lost} sentences the name was cut off by truncation, and counts as 0 there. Use"
            " shorter templates."
        )
    fewest = min(len(names) for names in grid.names.groups.values())
    for count, of in (
        (fewest, "name{} per group"),
        (len(grid.templates), "template{}"),
    ):
        if count < FEW:
            what = of.format("s" * (count > 1))
            notes.append(f"Only {count} {what}: the intervals are too narrow.")
    if "swaps" not in tables and len(grid.groups) > 1:
        notes.append("The model returns one number and no classes, so no prediction can change.")
    return tuple(notes)


def _examples(
    explainer: SampleExplainer,
    method: str,
    compared: ClassTarget,
    rows: Sequence[Mapping[str, Any]],
) -> tuple[AuditExample, ...]:
    """The sentences where a name has the highest and lowest relevance and the largest share."""
    own = [row for row in rows if row["method"] == method]
    captions = {
        "Name with the highest relevance for the target": max(own, key=itemgetter("relevance")),
        "Name with the lowest relevance": min(own, key=itemgetter("relevance")),
        "Name with the largest share": max(own, key=itemgetter("share")),
    }
    samples = [Sample(row["text"], row["text"]) for row in captions.values()]
    explained = explainer.explain_texts(samples, method, compared.target)
    return tuple(
        AuditExample(
            f"{caption}: {row['name']} ({row['group']}), relevance {row['relevance']:+.4f}.",
            found.attribution,
        )
        for (caption, row), (_, found) in zip(captions.items(), explained, strict=True)
    )
