"""Explain a whole dataset and summarise which parts of the inputs speak for each class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from whyformer.audit.explain_samples import (
    FailedSample,
    SampleResults,
    explain_samples,
    failure_facts,
    failure_notes,
)
from whyformer.audit.explainer import BATCH, check_batch, check_methods
from whyformer.audit.findings import Audit, AuditExample
from whyformer.audit.sample_explainer import ExplainSettings, SampleExplainer
from whyformer.audit.scored_words import term_pattern
from whyformer.audit.word_lists import read_terms
from whyformer.batching.progress import Progress, without_progress
from whyformer.datasets import Sample
from whyformer.errors import InputError, OptionError
from whyformer.evaluation.sample_sources import read_samples
from whyformer.inputs.detect import kind_of
from whyformer.models.load import Loaded, load_model
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.summarize.parts import UNITS, ExplainedSample, Unit, reduce_to_parts
from whyformer.summarize.ranking import ClassRanking, compare_models, rank_parts
from whyformer.summarize.tables import charts, headline, summary_tables
from whyformer.workers import EngineOptions

DOING = "explaining for the summary"
KINDS = ("text", "image")
EXAMPLES = 3  # classes whose strongest part is shown in an example
FIRST = ("supporting", "opposing", "terms", "models")


def run_summary(
    data: Any,
    model: Any = None,
    *,
    other: Any = None,
    method: str = "auto",
    target: Any = None,
    unit: Unit | None = None,
    terms: Any = None,
    processor: Any = None,
    split: str | None = None,
    limit: int | None = None,
    on_error: str = "raise",
    min_count: int = 5,
    truncation: bool = False,
    device: Any = None,
    dtype: Any = None,
    batch: int = BATCH,
    draws: int = 1000,
    seed: int = 0,
    engine: EngineOptions | None = None,
) -> Iterator[Progress | Audit]:
    """Summarise what a model uses over a dataset: the parts that speak for each class.

    Args:
        data: What `open_dataset` takes ("csv:reviews.csv"), a `Dataset`, or a list of inputs.
        model: A classifier of texts or images: a module, a folder, a name; the bundled one that
            fits the data if None.
        other: A second model, or another version of the model, to compare with.
        method: The method to explain with.
        target: The class to explain; each sample's predicted class if None.
        unit: "words" or "sentences" of texts, "positions" of an image's patches; words or
            positions if None.
        terms: Terms whose share of the relevance is measured: a file, a list, or
            {group: [term, ...]}.
        processor: The tokenizer or image processor, if it does not come with the model.
        split: The split of the dataset.
        limit: Draw this many samples, by `seed`; all if None.
        on_error: What to do with rows that cannot be read or explained, "raise" or "skip".
        min_count: Rank only parts that occur in at least this many samples of a class.
        truncation: Whether to cut texts that are too long for the model.
        device: Where to put models that are loaded here, such as "cuda:0".
        dtype: The precision of models that are loaded here, such as "bfloat16".
        batch: The most samples in one batch.
        draws: Bootstrap draws behind each interval.
        seed: The seed of the draws and of the samples.
        engine: Where to explain: in this process if None, in several, or on a Ray cluster. The
            findings are the same.

    Yields:
        Progress after every batch, and the findings at the end, in the form of an audit: tables,
        charts, examples, rows. `summarize` returns the findings alone.

    Raises:
        InputError: The dataset cannot be read, is empty, or holds neither texts nor images.
        OptionError: `unit`, `min_count`, `batch` or `draws` is out of range.

    Example:
        >>> import whyformer as wf
        >>> found = wf.summarize(["a dull film", "a dull plot"], min_count=2, draws=10)
        >>> found.tables["supporting"].records()[0]["word"]
        'dull'
    """
    check_methods(method)
    if isinstance(min_count, bool) or min_count < 1:
        raise OptionError(
            f"min_count={min_count!r} is not a number of samples",
            argument="min_count",
            remedy="Pass a whole number from 1",
        )
    groups = read_terms(terms)
    patterns = [term_pattern(t) for own in groups.groups.values() for t in own] if groups else None
    bootstrap = Bootstrap(draws, seed)
    check_batch(batch)
    read = read_samples(data, model, split=split, limit=limit, seed=seed, on_error=on_error)
    kind = _common_kind(read.samples[:limit], read.source)
    unit = _unit_for(kind, unit)
    if patterns and kind != "text":
        raise OptionError(
            "terms= needs texts, and the data has images", argument="terms", remedy="Leave it out"
        )
    loaded = _load_models(
        (model, other), processor=processor, kind=kind, device=device, dtype=dtype
    )
    settings = ExplainSettings(kind, truncation, batch)
    shown = SampleExplainer(next(iter(loaded.values())), settings)
    chosen = shown.select(read, limit)
    empty = len(read.samples[:limit]) - len(chosen)
    reduce = partial(reduce_to_parts, method, target, unit, patterns)
    steps = len(loaded) * len(chosen)
    yield Progress(DOING, 0, steps)
    results: dict[str, SampleResults] = {}
    for number, (name, one) in enumerate(loaded.items()):
        for event in explain_samples(
            one, settings, reduce, chosen, engine or EngineOptions(), on_error
        ):
            if isinstance(event, SampleResults):
                results[name] = event
            else:
                yield Progress(DOING, number * len(chosen) + event, steps)
    # What one model cannot explain is left out for both, so that they can be compared.
    by_place = {place: bad for one in results.values() for place, bad in one.failed.items()}
    failed = tuple(by_place[place] for place in sorted(by_place))
    samples = [sample for place, sample in enumerate(chosen) if place not in by_place]
    if not samples:
        raise InputError(
            f"no sample can be explained by both models: {failed[0].error}", argument="data"
        )
    explained: dict[str, list[ExplainedSample]] = {
        name: [found for place, found in one.findings.items() if place not in by_place]
        for name, one in results.items()
    }
    rankings = {name: rank_parts(own, bootstrap, min_count) for name, own in explained.items()}
    first, *others = explained
    differences = (
        compare_models(explained[first], explained[others[0]], bootstrap, min_count)
        if others
        else ()
    )
    tables = summary_tables(rankings, explained, differences, unit, bootstrap)
    yield Audit(
        kind="summary",
        title=f"What {' and '.join(loaded)} {'use' if len(loaded) > 1 else 'uses'} over"
        f" {len(samples)} samples",
        headline=headline(rankings, explained, differences),
        tables=tables,
        rows=tuple(_row(name, one) for name, own in explained.items() for one in own),
        settings={
            "model": " and ".join(loaded),
            "methods": [method],
            "target": "predicted class" if target is None else str(target),
            "unit": unit,
            "data": read.source,
            "split": split,
            "limit": limit,
            "samples": len(samples),
            "skipped because empty": empty,
            "skipped because unreadable": read.unreadable,
            "failures": failure_facts(failed),
            "terms": None if groups is None else {g: list(t) for g, t in groups.groups.items()},
            "min_count": min_count,
            "truncation": truncation,
            "draws": draws,
            "seed": seed,
            "level": bootstrap.level,
        },
        notes=_notes(rankings, min_count, empty, read.unreadable, failed),
        charts=charts(rankings),
        examples=_examples(
            shown,
            {sample.id: sample for sample in samples},
            rankings[first],
            method,
            target,
        ),
        first=FIRST,
    )


summarize = without_progress(run_summary, "summarize")


def _common_kind(samples: Sequence[Sample], origin: str) -> str:
    """The kind of all samples, "text" or "image"."""
    for sample in samples:
        kind = kind_of(sample.inputs)
        if kind not in KINDS:
            raise InputError(
                f"sample {sample.id} of {origin} is of kind {kind!r}",
                argument="data",
                remedy="Pass texts, pairs of texts, or images",
            )
        if kind != kind_of(samples[0].inputs):
            raise InputError(
                f"{origin} mixes texts and images: sample {sample.id} is of kind {kind!r}",
                argument="data",
                remedy="Summarise texts and images one after the other",
            )
    return kind_of(samples[0].inputs)


def _unit_for(kind: str, unit: Unit | None) -> Unit:
    allowed: tuple[Unit, ...] = ("positions",) if kind == "image" else UNITS[:2]
    if unit is None:
        return allowed[0]
    if unit not in allowed:
        known = unit in get_args(Unit)
        raise OptionError(
            f"unit={unit!r} is {'not for' if known else 'unknown for'} data of kind {kind!r}",
            argument="unit",
            remedy=f"Pass {' or '.join(map(repr, allowed))}",
        )
    return unit


def _load_models(models: Sequence[Any], **how: Any) -> dict[str, Loaded]:
    """The one or two models by their names in tables; equal names get a number."""
    first, other = models
    found: dict[str, Loaded] = {}
    for place, model in enumerate([first] if other is None else [first, other]):
        loaded = model if isinstance(model, Loaded) else load_model(model, **how)
        name = loaded.name if loaded.name not in found else f"{loaded.name} ({place + 1})"
        found[name] = loaded
    return found


def _row(model: str, one: ExplainedSample) -> dict[str, Any]:
    """One explanation as a row of rows.parquet."""
    return {
        "model": model,
        "sample": one.sample,
        "target": one.label,
        "output": one.output,
        "parts": list(one.shares),
        "shares": list(one.shares.values()),
        "share on terms": one.terms,
        "conservation": one.conservation,
    }


def _notes(
    rankings: Mapping[str, Sequence[ClassRanking]],
    min_count: int,
    empty: int,
    damaged: int,
    failed: Sequence[FailedSample],
) -> tuple[str, ...]:
    notes = []
    if empty:
        notes.append(f"{empty} texts are empty or have no tokens, and were skipped.")
    if damaged:
        notes.append(f"{damaged} rows of the dataset could not be read, and were skipped.")
    notes += failure_notes(failed)
    bare = [
        ranking.label
        for classes in rankings.values()
        for ranking in classes
        if not ranking.supporting and not ranking.opposing
    ]
    if bare:
        notes.append(
            f"Nothing occurs in at least {min_count} samples of {', '.join(dict.fromkeys(bare))}."
            " Use more samples or a smaller min_count."
        )
    return tuple(notes)


def _examples(
    explainer: SampleExplainer,
    samples: Mapping[str, Sample],
    rankings: Sequence[ClassRanking],
    method: str,
    target: Any,
) -> tuple[AuditExample, ...]:
    """The strongest part of each class: its strongest sample, and its counter-example."""
    chosen: dict[str, str] = {}
    for ranking in [one for one in rankings if one.supporting][:EXAMPLES]:
        best = ranking.supporting[0]
        chosen.setdefault(
            best.example, f"{best.example}: '{best.part}' speaks most for {ranking.label}."
        )
        if best.counter is not None:
            chosen.setdefault(
                best.counter,
                f"{best.counter}: a counter-example, '{best.part}' speaks against {ranking.label}.",
            )
    explained = explainer.explain([samples[name] for name in chosen], method, target)
    return tuple(
        AuditExample(
            caption,
            replace(
                attribution,
                provenance={**attribution.provenance, "model": explainer.loaded.name},
            ),
        )
        for caption, (_, attribution, _) in zip(chosen.values(), explained, strict=True)
    )
