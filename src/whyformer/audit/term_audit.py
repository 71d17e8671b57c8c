"""The terms audit: which words of a dataset a model's decisions depend on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from whyformer.audit.explain_samples import (
    FailedSample,
    SampleResults,
    explain_samples,
    failure_facts,
    failure_notes,
)
from whyformer.audit.explainer import BATCH, ExplainedText, check_batch, check_methods
from whyformer.audit.findings import Audit, AuditExample
from whyformer.audit.sample_explainer import ExplainSettings, SampleExplainer
from whyformer.audit.scored_words import CONTENT, KINDS, Hit, ScoredText, term_pattern
from whyformer.audit.term_tables import (
    MethodFindings,
    SampleFindings,
    charts,
    collect_findings,
    headline,
    term_tables,
)
from whyformer.audit.token_spans import text_parts
from whyformer.audit.word_lists import WordGroups, read_function_words, read_terms
from whyformer.batching.progress import Progress, without_progress
from whyformer.datasets import Sample
from whyformer.errors import InputError
from whyformer.evaluation.sample_sources import read_samples
from whyformer.models.load import load_model
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.workers import EngineOptions

DOING = "explaining for the audit of terms"
EXAMPLES = 3
FIRST = ("terms", "term_groups", "term_differences", "attention", "words")


def run_term_audit(
    data: Any,
    model: Any = None,
    *,
    terms: Any = None,
    methods: str | Sequence[str] = "libragrad",
    target: Any = None,
    processor: Any = None,
    split: str | None = None,
    limit: int | None = None,
    on_error: str = "raise",
    function_words: Any = None,
    min_count: int = 5,
    truncation: bool = False,
    batch: int = BATCH,
    draws: int = 1000,
    seed: int = 0,
    engine: EngineOptions | None = None,
) -> Iterator[Progress | Audit]:
    """Find out which words of a dataset a model's decisions depend on.

    Args:
        data: What `open_dataset` takes ("sst2:PATH"), a `Dataset`, or a list of texts.
        model: A text model: a module, a folder, a name; the bundled one if None.
        terms: Terms to measure: a file, a list, or {group: [term, ...]}. If None, all words are
            ranked.
        methods: The method or methods to explain with.
        target: The class to explain; the predicted one if None.
        processor: The model's tokenizer, if it does not come with the model.
        split: The split of the dataset.
        limit: Draw this many samples, by `seed`; all if None.
        on_error: What to do with rows that cannot be read or explained, "raise" or "skip".
        function_words: Words without content: a file or a list; bundled English ones if None.
        min_count: Rank only words that occur in at least this many samples.
        truncation: Whether to cut texts that are too long for the model.
        batch: The most texts in one batch.
        draws: Bootstrap draws behind each interval.
        seed: The seed of the draws and of the samples.
        engine: Where to explain: in this process if None, in several, or on a Ray cluster. The
            findings are the same.

    Yields:
        Progress after every batch, and the `Audit` at the end. `audit_terms` returns the audit
        alone.

    Raises:
        InputError: A list or the dataset cannot be read, or has no text that can be explained.
        OptionError: `methods`, `batch` or `draws` is out of range.

    Example:
        >>> found = audit_terms(["a dull film", "a good film"], terms=["dull"], draws=10)
        >>> [row["top word"] for row in found.rows]
        ['dull', 'good']
    """
    chosen = check_methods(methods)
    groups = read_terms(terms)
    empty_words = read_function_words(function_words)
    bootstrap = Bootstrap(draws, seed)
    check_batch(batch)
    read = read_samples(data, model, split=split, limit=limit, seed=seed, on_error=on_error)
    for sample in read.samples:
        _check_text(sample)
    settings = ExplainSettings("text", truncation, batch)
    explainer = SampleExplainer(load_model(model, processor, "text"), settings)
    chosen_samples = explainer.select(read, limit)
    empty = len(read.samples[:limit]) - len(chosen_samples)
    patterns = {term: term_pattern(term) for term in _all_terms(groups)}
    reduce = partial(_findings, chosen, target, patterns, empty_words)
    steps = len(chosen) * len(chosen_samples)
    yield Progress(DOING, 0, steps)
    for event in explain_samples(
        explainer.loaded, settings, reduce, chosen_samples, engine or EngineOptions(), on_error
    ):
        if isinstance(event, SampleResults):
            explained = event
        else:
            yield Progress(DOING, event * len(chosen), steps)
    kept = [chosen_samples[place] for place in explained.findings]
    failed = tuple(explained.failed.values())
    findings = {
        method: collect_findings([one[method] for one in explained.findings.values()], patterns)
        for method in chosen
    }
    tables = term_tables(findings, groups, bootstrap, min_count)
    examples = _examples(explainer, chosen[0], target, kept, findings[chosen[0]])
    yield Audit(
        kind="terms",
        title=f"Words that drive the decisions of {explainer.name}",
        headline=headline(tables),
        tables=tables,
        rows=tuple(row for one in findings.values() for row in one.rows),
        settings={
            "model": explainer.name,
            "methods": list(chosen),
            "target": "predicted class" if target is None else str(target),
            "data": read.source,
            "split": split,
            "limit": limit,
            "samples": len(kept),
            "skipped because empty": empty,
            "skipped because unreadable": read.unreadable,
            "failures": failure_facts(failed),
            "terms": None if groups is None else {g: list(t) for g, t in groups.groups.items()},
            "min_count": min_count,
            "truncation": truncation,
            "draws": draws,
            "seed": seed,
            "level": bootstrap.level,
            "versions": dict(examples[0].attribution.provenance.get("versions", {})),
        },
        notes=_notes(findings[chosen[0]], groups, empty, read.unreadable, failed),
        charts=charts(tables),
        examples=examples,
        first=FIRST,
    )


audit_terms = without_progress(run_term_audit, "audit_terms")


def _check_text(sample: Sample) -> None:
    text = sample.inputs
    pair = isinstance(text, tuple) and len(text) == 2 and all(isinstance(t, str) for t in text)
    if not isinstance(text, str) and not pair:
        raise InputError(
            f"sample {sample.id} is a {type(text).__name__}; expected a text or a pair of texts",
            argument="data",
        )


def _findings(
    methods: Sequence[str],
    target: Any,
    patterns: Mapping[str, re.Pattern[str]],
    function_words: frozenset[str],
    explainer: SampleExplainer,
    samples: Sequence[Sample],
) -> list[dict[str, SampleFindings]]:
    """For every sample its findings by method."""
    by_method = {
        method: [
            _sample_findings(method, sample, found, patterns, function_words)
            for sample, found in explainer.explain_texts(samples, method, target)
        ]
        for method in methods
    }
    return [{method: by_method[method][i] for method in methods} for i in range(len(samples))]


def _sample_findings(
    method: str,
    sample: Sample,
    found: ExplainedText,
    patterns: Mapping[str, re.Pattern[str]],
    function_words: frozenset[str],
) -> SampleFindings:
    scored = ScoredText(found, function_words)
    hits = {term: hit for term, one in patterns.items() if (hit := scored.find(0, one))}
    row = _row(method, sample, found, scored, hits)
    return SampleFindings(row, hits, scored.every_word(0))


def _all_terms(terms: WordGroups | None) -> Iterable[str]:
    return () if terms is None else dict.fromkeys(t for g in terms.groups.values() for t in g)


def _row(
    method: str,
    sample: Sample,
    found: ExplainedText,
    scored: ScoredText,
    hits: Mapping[str, Hit],
) -> dict[str, Any]:
    """One explanation as a row of rows.parquet."""
    attribution = found.attribution
    conservation = attribution.conservation
    return {
        "method": method,
        "sample": sample.id,
        "text": " | ".join(text_parts(found.text)),
        "target": attribution.labels[0],
        "output": float(attribution.output[0]),
        "tokens": len(found.spans),
        "words": len(scored.words),
        **{f"share of {kind}": scored.kinds[kind][0] for kind in KINDS},
        **{f"tokens of {kind}": scored.kinds[kind][1] for kind in KINDS},
        "away": 1 - scored.kinds[CONTENT][0] if any(found.shares) else 0.0,
        "top word": scored.top.text if scored.top else None,
        "top kind": scored.top.kind if scored.top else None,
        "top share": scored.top.share if scored.top else None,
        "terms": list(hits),
        "term relevance": [hit.relevance for hit in hits.values()],
        "term share": [hit.share for hit in hits.values()],
        "conservation": None if conservation is None else float(conservation[0]),
    }


def _notes(
    found: MethodFindings,
    terms: WordGroups | None,
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
    absent = [term for term, hits in found.terms.items() if not hits]
    if absent:
        more = f" and {len(absent) - 10} more" if len(absent) > 10 else ""
        notes.append(f"Not found in any sample: {', '.join(absent[:10])}{more}.")
    if terms is not None:
        notes.append(
            "A term is compared with the other words of the same samples. Samples that contain a"
            " term may also differ from the others in other ways."
        )
    return tuple(notes)


def _examples(
    explainer: SampleExplainer,
    method: str,
    target: Any,
    samples: Sequence[Sample],
    found: MethodFindings,
) -> tuple[AuditExample, ...]:
    """Samples whose top word is a term, and samples with the least relevance on content words."""
    leading = sorted(
        (
            (hit.share, hit.sample, term)
            for term, hits in found.terms.items()
            for hit in hits
            if hit.top
        ),
        reverse=True,
    )
    captions: dict[int, str] = {}
    for share, sample, term in leading:
        if len(captions) < EXAMPLES:
            name = samples[sample].id
            captions.setdefault(sample, f"{name}: '{term}' is the top word, {100 * share:.1f} %.")
    away = sorted(range(len(samples)), key=lambda i: -found.rows[i]["away"])
    for sample in away[:EXAMPLES]:
        share = 100 * found.rows[sample]["away"]
        captions.setdefault(sample, f"{samples[sample].id}: {share:.1f} % is not on content words.")
    explained = explainer.explain_texts([samples[place] for place in captions], method, target)
    return tuple(
        AuditExample(caption, found.attribution)
        for caption, (_, found) in zip(captions.values(), explained, strict=True)
    )
