"""Terms in a dataset: which words carry the decision, where the model looks away from content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whyformer.audit.bootstrap import Bootstrap
from whyformer.audit.explainer import BATCH, ExplainedText, Explainer, Tick, check_methods, counted
from whyformer.audit.findings import Audit, AuditExample
from whyformer.audit.scored_words import CONTENT, KINDS, Hit, ScoredText, term_pattern
from whyformer.audit.term_tables import MethodFindings, charts, headline, term_tables
from whyformer.audit.token_spans import text_parts
from whyformer.audit.word_lists import WordGroups, read_function_words, read_terms
from whyformer.datasets import Dataset, Sample, open_dataset
from whyformer.errors import InputError
from whyformer.inputs.detect import Text

EXAMPLES = 3
FIRST = ("terms", "term_groups", "term_differences", "attention", "words")


def audit_terms(
    data: Any,
    model: Any = None,
    *,
    terms: Any = None,
    methods: str | Sequence[str] = "lrp_ah_ln",
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
    tick: Tick | None = None,
) -> Audit:
    """Which words of a dataset a model decides by, as an `Audit`.

    `data` is what `open_dataset` takes ("sst2:PATH"), a `Dataset`, or a list of texts; `terms` a
    file, a list or {group: [term, ...]}, and without it only the words at large are ranked. The
    predicted class is explained, or `target`. `limit` samples are drawn by `seed`. Words are
    ranked if at least `min_count` samples have them.
    """
    chosen = check_methods(methods)
    listed = read_terms(terms)
    small = read_function_words(function_words)
    bootstrap = Bootstrap(draws, seed)
    samples, origin, damaged = _samples(data, split, limit, seed, on_error)
    explainer = Explainer(model, processor, truncation=truncation, batch=batch)
    kept = [sample for sample in samples if explainer.has_content(sample.inputs)]
    if not kept:
        raise InputError(f"{origin} has no text that can be explained: {len(samples)} are empty")
    found: dict[str, MethodFindings] = {}
    for number, method in enumerate(chosen):
        part = counted(tick, number * len(kept), len(chosen) * len(kept))
        found[method] = _explain_samples(explainer, method, target, kept, listed, small, part)
    tables = term_tables(found, listed, bootstrap, min_count)
    empty = len(samples) - len(kept)
    return Audit(
        kind="terms",
        title=f"Words that {explainer.name} decides by",
        headline=headline(tables),
        tables=tables,
        rows=tuple(row for part in found.values() for row in part.rows),
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
            "terms": None if listed is None else {g: list(t) for g, t in listed.groups.items()},
            "min_count": min_count,
            "truncation": truncation,
            "draws": draws,
            "seed": seed,
            "level": bootstrap.level,
            "versions": explainer.versions,
        },
        notes=_notes(found[chosen[0]], listed, empty, damaged),
        charts=charts(tables),
        examples=_examples(explainer, chosen[0], target, kept, found[chosen[0]]),
        first=FIRST,
    )


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
            # A seed draws; without a limit there is nothing to draw.
            drawn = None if limit is None else seed
            opened = open_dataset(data, split, limit=limit, seed=drawn, on_error=on_error)
        samples = list(opened)
        origin = data if isinstance(data, str) else repr(opened)
        damaged = len(opened.report.skipped)
    for sample in samples:
        _check_text(sample)
    if not samples:
        raise InputError(f"{origin} has no samples; give at least one text")
    return samples, origin, damaged


def _check_text(sample: Sample) -> None:
    given = sample.inputs
    pair = isinstance(given, tuple) and len(given) == 2 and all(isinstance(t, str) for t in given)
    if not isinstance(given, str) and not pair:
        raise InputError(
            f"sample {sample.id} is a {type(given).__name__}; an audit of terms reads texts and"
            " pairs of texts"
        )


def _explain_samples(
    explainer: Explainer,
    method: str,
    target: Any,
    samples: Sequence[Sample],
    terms: WordGroups | None,
    function_words: frozenset[str],
    tick: Tick | None,
) -> MethodFindings:
    patterns = {term: term_pattern(term) for term in _all_terms(terms)}
    readings: dict[int, tuple[dict[str, Any], dict[str, Hit], dict[str, Hit]]] = {}
    texts: list[Text] = [sample.inputs for sample in samples]
    for index, found in explainer(texts, method, target, tick):
        reading = ScoredText(found, function_words)
        hits = {term: reading.find(index, one) for term, one in patterns.items()}
        there = {term: hit for term, hit in hits.items() if hit is not None}
        row = _row(method, samples[index], found, reading, there)
        readings[index] = row, there, reading.every_word(index)
    gathered = MethodFindings(terms={term: [] for term in patterns})
    for index in range(len(samples)):  # texts were explained by length: back to their own order
        row, there, words = readings[index]
        gathered.rows.append(row)
        for term, hit in there.items():
            gathered.terms[term].append(hit)
        for word, hit in words.items():
            gathered.words.setdefault(word, []).append(hit)
    return gathered


def _all_terms(terms: WordGroups | None) -> Iterable[str]:
    return () if terms is None else dict.fromkeys(t for g in terms.groups.values() for t in g)


def _row(
    method: str,
    sample: Sample,
    found: ExplainedText,
    reading: ScoredText,
    hits: Mapping[str, Hit],
) -> dict[str, Any]:
    """One explanation as it stands in rows.parquet."""
    attribution = found.attribution
    conservation = attribution.conservation
    return {
        "method": method,
        "sample": sample.id,
        "text": " | ".join(text_parts(found.text)),
        "target": attribution.labels[0],
        "output": float(attribution.output[0]),
        "tokens": len(found.spans),
        "words": len(reading.words),
        **{f"share of {kind}": reading.kinds[kind][0] for kind in KINDS},
        **{f"tokens of {kind}": reading.kinds[kind][1] for kind in KINDS},
        "away": 1 - reading.kinds[CONTENT][0] if any(found.shares) else 0.0,
        "top word": reading.top.text if reading.top else None,
        "top kind": reading.top.kind if reading.top else None,
        "top share": reading.top.share if reading.top else None,
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
        notes.append(f"{empty} texts are empty or hold nothing that the tokenizer keeps: left out.")
    if damaged:
        notes.append(f"{damaged} rows of the dataset could not be read: left out.")
    absent = [term for term, hits in found.terms.items() if not hits]
    if absent:
        more = f" and {len(absent) - 10} more" if len(absent) > 10 else ""
        notes.append(f"Nowhere in these samples: {', '.join(absent[:10])}{more}.")
    if terms is not None:
        notes.append(
            "A term's share is set beside that of the other words of the same samples. Samples"
            " with a term differ from those without in more than the term."
        )
    return tuple(notes)


def _examples(
    explainer: Explainer,
    method: str,
    target: Any,
    samples: Sequence[Sample],
    found: MethodFindings,
) -> tuple[AuditExample, ...]:
    """Samples in which a term is the top word, and samples that look away from the content."""
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
    examples = []
    for sample, caption in captions.items():
        ((_, one),) = explainer([samples[sample].inputs], method, target)
        examples.append(AuditExample(caption, one.attribution))
    return tuple(examples)
