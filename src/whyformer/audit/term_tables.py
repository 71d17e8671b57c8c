"""The tables, the headline and the charts of a terms audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any

from whyformer.audit.findings import AuditColumn, AuditTable, Cell, Chart, Point
from whyformer.audit.scored_words import CONTENT, KINDS, Hit
from whyformer.audit.word_lists import WordGroups
from whyformer.statistics.bootstrap import Bootstrap, Estimate

RANKED = 50  # words in the table
CHARTED = 25  # lines in a chart
SAMPLES = 20  # in the table of samples with the least relevance on content words
EXCERPT = 120  # characters of a sample's text

HIT_COLUMNS = (
    AuditColumn("samples", "count"),
    AuditColumn("relevance", "signed"),
    AuditColumn("share per word", "percent"),
    AuditColumn("other words", "percent"),
    AuditColumn("lead", "percent"),
    AuditColumn("low", "percent"),
    AuditColumn("high", "percent"),
    AuditColumn("top word", "percent"),
    AuditColumn("by chance", "percent"),
)
HIT_NOTE = (
    "Share per word: its part of all |relevance| in the samples that contain it. Other words: the"
    " mean share of the other words of these samples. Lead: the difference, with its interval over"
    " samples. Top word: how often it has the largest share; by chance: how often it would if all"
    " words had the same."
)


@dataclass(frozen=True)
class SampleFindings:
    """One explained sample: its row, and the relevance of its terms and its words."""

    row: Mapping[str, Any]
    terms: Mapping[str, Hit]
    words: Mapping[str, Hit]


@dataclass(frozen=True)
class MethodFindings:
    """All samples explained by one method, in their order."""

    rows: tuple[Mapping[str, Any], ...]
    terms: Mapping[str, Sequence[Hit]]
    words: Mapping[str, Sequence[Hit]]


def collect_findings(samples: Sequence[SampleFindings], terms: Iterable[str]) -> MethodFindings:
    """Return the hits of every term and word over all samples; a term may have none.

    `Hit.sample` becomes the place of its sample: who explained it knew only some of the samples.
    """
    by_term: dict[str, list[Hit]] = {term: [] for term in terms}
    by_word: dict[str, list[Hit]] = {}
    for place, sample in enumerate(samples):
        for term, hit in sample.terms.items():
            by_term[term].append(replace(hit, sample=place))
        for word, hit in sample.words.items():
            by_word.setdefault(word, []).append(replace(hit, sample=place))
    return MethodFindings(tuple(sample.row for sample in samples), by_term, by_word)


def term_tables(
    found: Mapping[str, MethodFindings],
    terms: WordGroups | None,
    bootstrap: Bootstrap,
    min_count: int,
) -> dict[str, AuditTable]:
    """Return all tables by name."""
    tables = {}
    if terms is not None:
        tables["terms"] = _terms(found, terms, bootstrap)
        tables["term_groups"] = _term_groups(found, terms, bootstrap)
        tables["term_differences"] = _term_differences(found, terms, bootstrap)
    tables |= {
        "attention": _kinds(found, bootstrap),
        "words": _words(found, bootstrap, min_count),
        "away": _away(found),
    }
    return {name: table for name, table in tables.items() if table.rows}


def _hit_cells(hits: Sequence[Hit], bootstrap: Bootstrap) -> tuple[Cell, ...]:
    """The cells of HIT_COLUMNS for a word or a term; without hits the count 0 and None."""
    if not hits:
        return (0, *([None] * (len(HIT_COLUMNS) - 1)))
    both = [(hit.per_word, hit.others) for hit in hits if hit.others is not None]
    lead = bootstrap.mean([own - other for own, other in both]) if both else None
    return (
        len(hits),
        fmean(hit.relevance for hit in hits),
        _share(hits),
        fmean(other for _, other in both) if both else None,
        *((lead.value, lead.low, lead.high) if lead else (None, None, None)),
        fmean(hit.top for hit in hits),
        fmean(hit.chance for hit in hits),
    )


def _share(hits: Sequence[Hit]) -> float:
    """The mean share per word, over samples with other words to compare with, if there are any."""
    compared = [hit.per_word for hit in hits if hit.others is not None]
    return fmean(compared or [hit.per_word for hit in hits])


def _lead(hits: Sequence[Hit]) -> float:
    """How far the share per word is ahead of the other words of the samples, on average."""
    both = [hit.per_word - hit.others for hit in hits if hit.others is not None]
    return fmean(both) if both else float("-inf")


def _terms(
    found: Mapping[str, MethodFindings], terms: WordGroups, bootstrap: Bootstrap
) -> AuditTable:
    rows = []
    for method, findings in found.items():
        own = [
            (method, term, group, *_hit_cells(findings.terms[term], bootstrap))
            for group, members in terms.groups.items()
            for term in members
        ]
        rows += sorted(own, key=lambda row: -_lead(findings.terms[str(row[1])]))
    columns = (AuditColumn("method"), AuditColumn("term"), AuditColumn("group"), *HIT_COLUMNS)
    return AuditTable("Relevance of the terms", columns, tuple(rows), HIT_NOTE, shown=20)


def hits_by_sample(hits: Mapping[str, Sequence[Hit]], terms: Sequence[str]) -> dict[int, list[Hit]]:
    """Return the hits of these terms, by sample."""
    found: dict[int, list[Hit]] = {}
    for term in terms:
        for hit in hits[term]:
            found.setdefault(hit.sample, []).append(hit)
    return dict(sorted(found.items()))


def _term_groups(
    found: Mapping[str, MethodFindings], terms: WordGroups, bootstrap: Bootstrap
) -> AuditTable:
    rows = [
        (method, group, *_hit_cells([_merge_hits(hits) for hits in own.values()], bootstrap))
        for method, findings in found.items()
        for group, members in terms.groups.items()
        for own in [hits_by_sample(findings.terms, members)]
    ]
    several = len(terms.groups) > 1
    columns = (AuditColumn("method"), AuditColumn("group"), *HIT_COLUMNS)
    return AuditTable("Relevance of groups of terms", columns, tuple(rows) if several else ())


def _merge_hits(hits: Sequence[Hit]) -> Hit:
    """One hit for several in one sample: their means, and whether any is the top word."""
    others = [hit.others for hit in hits if hit.others is not None]
    return Hit(
        hits[0].sample,
        fmean(hit.relevance for hit in hits),
        fmean(hit.share for hit in hits),
        fmean(hit.per_word for hit in hits),
        fmean(others) if others else None,
        any(hit.top for hit in hits),
        min(1.0, sum(hit.chance for hit in hits)),
    )


def _term_differences(
    found: Mapping[str, MethodFindings], terms: WordGroups, bootstrap: Bootstrap
) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for method, findings in found.items():
        by_group = {
            g: hits_by_sample(findings.terms, members) for g, members in terms.groups.items()
        }
        for first, second in combinations(terms.groups, 2):
            ours, theirs = by_group[first], by_group[second]
            if not ours or not theirs:
                continue
            samples = sorted({*ours, *theirs})
            values = [
                [fmean(hit.per_word for hit in own[i]) if i in own else None for i in samples]
                for own in (ours, theirs)
            ]
            lead = bootstrap.group_difference(*values)
            rows.append((method, first, second, lead.value, lead.low, lead.high, lead.clear))
    columns = (
        AuditColumn("method"),
        AuditColumn("group"),
        AuditColumn("minus group"),
        AuditColumn("difference", "percent"),
        AuditColumn("low", "percent"),
        AuditColumn("high", "percent"),
        AuditColumn("significant"),
    )
    note = "Share per word of the first group's terms minus that of the second group's."
    return AuditTable("Differences between groups of terms", columns, tuple(rows), note)


def _kinds(found: Mapping[str, MethodFindings], bootstrap: Bootstrap) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for method, findings in found.items():
        for kind in KINDS:
            share = bootstrap.mean([row[f"share of {kind}"] for row in findings.rows])
            even = fmean(row[f"tokens of {kind}"] for row in findings.rows)
            top = fmean(row["top kind"] == kind for row in findings.rows)
            ratio = share.value / even if even else None
            rows.append((method, kind, share.value, share.low, share.high, even, ratio, top))
    columns = (
        AuditColumn("method"),
        AuditColumn("kind"),
        AuditColumn("share", "percent"),
        AuditColumn("low", "percent"),
        AuditColumn("high", "percent"),
        AuditColumn("of the tokens", "percent"),
        AuditColumn("times even", "number"),
        AuditColumn("top word", "percent"),
    )
    note = (
        "Share of all |relevance|, and of the tokens. Times even: the first divided by the second;"
        " below 1, this kind has less relevance than its share of the tokens. Special"
        " tokens are not part of the text, but a model may collect information in them."
    )
    return AuditTable("Relevance by kind of word", columns, tuple(rows), note)


def _words(found: Mapping[str, MethodFindings], bootstrap: Bootstrap, min_count: int) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for method, findings in found.items():
        frequent = {w: hits for w, hits in findings.words.items() if len(hits) >= min_count}
        leads = {word: _lead(hits) for word, hits in frequent.items()}
        ranked = sorted(frequent, key=lambda word: (-leads[word], word))
        rows += [(method, word, *_hit_cells(frequent[word], bootstrap)) for word in ranked[:RANKED]]
    columns = (AuditColumn("method"), AuditColumn("word"), *HIT_COLUMNS)
    note = f"Words in at least {min_count} samples, by their lead. {HIT_NOTE}"
    return AuditTable("Words with the most relevance", columns, tuple(rows), note, shown=15)


def _away(found: Mapping[str, MethodFindings]) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for method, findings in found.items():
        strongest = sorted(findings.rows, key=lambda row: -row["away"])[:SAMPLES]
        rows += [
            (
                method,
                row["sample"],
                row["target"],
                row["away"],
                *(row[f"share of {kind}"] for kind in KINDS if kind != CONTENT),
                row["top word"],
                _excerpt(row["text"]),
            )
            for row in strongest
        ]
    columns = (
        AuditColumn("method"),
        AuditColumn("sample"),
        AuditColumn("target"),
        AuditColumn("not on content", "percent"),
        *(AuditColumn(kind, "percent") for kind in KINDS if kind != CONTENT),
        AuditColumn("top word"),
        AuditColumn("text"),
    )
    return AuditTable("Samples with the least relevance on content words", columns, tuple(rows))


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= EXCERPT else flat[: EXCERPT - 1] + "…"


# -- headline and charts -------------------------------------------------------------------------


def headline(tables: Mapping[str, AuditTable]) -> tuple[str, ...]:
    """Return sentences on the terms, on relevance outside content words, and on the top words."""
    percent = AuditColumn("", "percent")
    sentences = []
    rows = tables["terms"].records() if "terms" in tables else []
    for sign, words in ((1, "more"), (-1, "less")):
        clear = [
            row
            for row in rows
            if row["low"] is not None and sign * float(row["low" if sign > 0 else "high"] or 0) > 0
        ][::sign]  # the widest difference first
        if clear:
            listing = ", ".join(
                f"'{row['term']}' {percent.format(row['lead'])}" for row in clear[:5]
            )
            more = f" and {len(clear) - 5} more" if len(clear) > 5 else ""
            sentences.append(
                f"{len(clear)} of {len(rows)} terms have {words} relevance than the other words of"
                f" their samples: {listing}{more}."
            )
    if rows and not sentences:
        sentences.append(f"No term differs significantly from other words ({len(rows)} tested).")
    off = [row for row in tables["attention"].records() if row["kind"] != CONTENT]
    first = [row for row in off if row["method"] == off[0]["method"]]
    parts = ", ".join(f"{row['kind']} {percent.format(row['share'])}" for row in first)
    sentences.append(f"Relevance that is not on content words: {parts}.")
    if "words" in tables:
        sentences.append(_words_sentence(tables["words"].records()))
    return tuple(sentences)


def _words_sentence(rows: Sequence[Mapping[str, Cell]]) -> str:
    """Which words decide: those whose lead is significant, the largest first, as in the chart."""
    own = [row for row in rows if row["method"] == rows[0]["method"]]
    clear = [row for row in own if row["low"] is not None and float(row["low"]) > 0]
    if not clear:
        return f"No word has significantly more relevance than the others ({len(own)} tested)."
    percent = AuditColumn("", "percent")
    listing = ", ".join(f"'{row['word']}' {percent.format(row['lead'])}" for row in clear[:5])
    return f"Words with the largest lead over the other words of their samples: {listing}."


def charts(tables: Mapping[str, AuditTable]) -> tuple[Chart, ...]:
    """Return charts of the terms' leads, the shares of the kinds of words, and the words' leads."""
    specs = (
        ("terms", "term", "lead", "Share of a term \N{MINUS SIGN} share of the other words", True),
        ("attention", "kind", "share", "Share of all |relevance|", False),
        ("words", "word", "lead", "Share of a word \N{MINUS SIGN} share of the other words", True),
    )
    found = []
    for name, label, column, title, zero in specs:
        records = tables[name].records() if name in tables else []
        several = len({row["method"] for row in records}) > 1
        points = tuple(
            Point(
                f"{row[label]}" + (f", {row['method']}" * several),
                Estimate(*(float(row[part] or 0) for part in (column, "low", "high"))),
            )
            for row in records
            if row["low"] is not None
        )
        if points:
            found.append(Chart(title, points[:CHARTED], percent=True, zero=zero))
    return tuple(found)
