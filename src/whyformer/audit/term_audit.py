"""The terms audit: which words of a dataset a model's decisions depend on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from whyformer.audit.explainer import BATCH, ExplainedText, TextExplainer, check_methods
from whyformer.audit.findings import Audit, AuditExample
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
from whyformer.datasets import Dataset, Sample, open_dataset
from whyformer.errors import InputError
from whyformer.inputs.detect import Text
from whyformer.statistics.bootstrap import Bootstrap

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
        on_error: What to do with rows that cannot be read, "raise" or "skip".
        function_words: Words without content: a file or a list; bundled English ones if None.
        min_count: Rank only words that occur in at least this many samples.
        truncation: Whether to cut texts that are too long for the model.
        batch: The most texts in one batch.
        draws: Bootstrap draws behind each interval.
        seed: The seed of the draws and of the samples.

    Yields:
        Progress after every text, and the `Audit` at the end. `audit_terms` returns the audit
        alone.

    Raises:
        InputError: A list or the dataset cannot be read, or has no text.
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
    samples, origin, damaged = _samples(data, split, limit, seed, on_error)
    explainer = TextExplainer(model, processor, truncation=truncation, batch=batch)
    kept = [sample for sample in samples if explainer.has_content(sample.inputs)]
    if not kept:
        raise InputError(
            f"{origin} has no text that can be explained: all {len(samples)} are empty",
            argument="data",
        )
    texts: list[Text] = [sample.inputs for sample in kept]
    patterns = {term: term_pattern(term) for term in _all_terms(groups)}
    findings: dict[str, MethodFindings] = {}
    versions: Mapping[str, str] = {}
    for number, method in enumerate(chosen):
        each: list[SampleFindings] = []
        for at, found in enumerate(explainer.explain(texts, method, target)):
            each.append(_sample_findings(method, at, kept[at], found, patterns, empty_words))
            versions = found.attribution.provenance.get("versions", {})
            yield Progress(DOING, number * len(texts) + at + 1, len(chosen) * len(texts))
        findings[method] = collect_findings(each, patterns)
    tables = term_tables(findings, groups, bootstrap, min_count)
    empty = len(samples) - len(kept)
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
            "data": origin,
            "split": split,
            "limit": limit,
            "samples": len(kept),
            "skipped because empty": empty,
            "skipped because unreadable": damaged,
            "terms": None if groups is None else {g: list(t) for g, t in groups.groups.items()},
            "min_count": min_count,
            "truncation": truncation,
            "draws": draws,
            "seed": seed,
            "level": bootstrap.level,
            "versions": dict(versions),
        },
        notes=_notes(findings[chosen[0]], groups, empty, damaged),
        charts=charts(tables),
        examples=_examples(explainer, chosen[0], target, kept, findings[chosen[0]]),
        first=FIRST,
    )


audit_terms = without_progress(run_term_audit, "audit_terms")


def _samples(
    data: Any, split: str | None, limit: int | None, seed: int, on_error: str
) -> tuple[list[Sample], str, int]:
    """The samples, where they are from, and how many rows could not be read."""
    if isinstance(data, Sequence) and not isinstance(data, str):
        texts = list(data)[:limit]
        samples = [
            text if isinstance(text, Sample) else Sample(str(i), text)
            for i, text in enumerate(texts)
        ]
        origin, damaged = "a list of texts", 0
    else:
        opened = data
        if not isinstance(data, Dataset):
            # With a seed, `limit` samples are drawn; without a limit all are taken.
            drawn = None if limit is None else seed
            opened = open_dataset(data, split, limit=limit, seed=drawn, on_error=on_error)
        samples = list(opened)
        origin = data if isinstance(data, str) else repr(opened)
        damaged = len(opened.report.skipped)
    for sample in samples:
        _check_text(sample)
    if not samples:
        raise InputError(
            f"{origin} has no samples", argument="data", remedy="Pass at least one text"
        )
    return samples, origin, damaged


def _check_text(sample: Sample) -> None:
    text = sample.inputs
    pair = isinstance(text, tuple) and len(text) == 2 and all(isinstance(t, str) for t in text)
    if not isinstance(text, str) and not pair:
        raise InputError(
            f"sample {sample.id} is a {type(text).__name__}; expected a text or a pair of texts",
            argument="data",
        )


def _sample_findings(
    method: str,
    index: int,
    sample: Sample,
    found: ExplainedText,
    patterns: Mapping[str, re.Pattern[str]],
    function_words: frozenset[str],
) -> SampleFindings:
    scored = ScoredText(found, function_words)
    hits = {term: hit for term, one in patterns.items() if (hit := scored.find(index, one))}
    row = _row(method, sample, found, scored, hits)
    return SampleFindings(row, hits, scored.every_word(index))


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
    found: MethodFindings, terms: WordGroups | None, empty: int, damaged: int
) -> tuple[str, ...]:
    notes = []
    if empty:
        notes.append(f"{empty} texts are empty or have no tokens, and were skipped.")
    if damaged:
        notes.append(f"{damaged} rows of the dataset could not be read, and were skipped.")
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
    explainer: TextExplainer,
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
    texts = [samples[sample].inputs for sample in captions]
    explained = explainer.explain(texts, method, target)
    return tuple(
        AuditExample(caption, found.attribution)
        for caption, found in zip(captions.values(), explained, strict=True)
    )
