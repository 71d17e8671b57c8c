"""The tables, the headline and the charts of a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from whyformer.audit.findings import AuditColumn, AuditTable, Cell, Chart, Point
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.summarize.parts import ExplainedSample, Unit
from whyformer.summarize.ranking import ClassRanking, PartDifference, RankedPart

CHARTED = 12  # parts of each side in the chart of a class
MOST_CHARTS = 6  # classes with a chart
SINGULAR = {"words": "word", "sentences": "sentence", "positions": "position"}

SHARE_NOTE = (
    "Share: relevance divided by the sum of |relevance| of the sample, averaged over the samples of"
    " the class that contain the {part}, with its interval over samples. Supports: how often its"
    " relevance is positive. Example: the sample with its strongest relevance on this side."
    " Counter-example: the sample with its strongest relevance on the other side."
)


def summary_tables(
    rankings: Mapping[str, Sequence[ClassRanking]],
    samples: Mapping[str, Sequence[ExplainedSample]],
    differences: Sequence[PartDifference],
    unit: Unit,
    bootstrap: Bootstrap,
) -> dict[str, AuditTable]:
    """Return all tables by name; a table without rows is left out.

    Args:
        rankings: By model, the rankings of its classes.
        samples: By model, its explained samples.
        differences: Between two models, if there are two.
        unit: What is ranked.
        bootstrap: How intervals are computed.
    """
    part = SINGULAR[unit]
    tables = {
        "classes": _classes(rankings, samples),
        "supporting": _sides(rankings, part, "for"),
        "opposing": _sides(rankings, part, "against"),
        "terms": _terms(samples, bootstrap),
        "models": _models(list(samples), differences, part),
    }
    return {name: table for name, table in tables.items() if table.rows}


def _classes(
    rankings: Mapping[str, Sequence[ClassRanking]],
    samples: Mapping[str, Sequence[ExplainedSample]],
) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for model, classes in rankings.items():
        for ranking in classes:
            own = [one for one in samples[model] if one.label == ranking.label]
            sums = [one.conservation for one in own if one.conservation is not None]
            conserved = fmean(sums) if sums else None
            mean = fmean(one.output for one in own)
            rows.append((model, ranking.label, ranking.samples, mean, conserved))
    columns = (
        AuditColumn("model"),
        AuditColumn("class"),
        AuditColumn("samples", "count"),
        AuditColumn("mean output", "signed"),
        AuditColumn("conservation", "number"),
    )
    return AuditTable("Explained classes", columns, tuple(rows))


def _sides(rankings: Mapping[str, Sequence[ClassRanking]], part: str, side: str) -> AuditTable:
    rows = [
        (model, ranking.label, *_cells(ranked))
        for model, classes in rankings.items()
        for ranking in classes
        for ranked in (ranking.supporting if side == "for" else ranking.opposing)
    ]
    columns = (
        AuditColumn("model"),
        AuditColumn("class"),
        AuditColumn(part),
        AuditColumn("samples", "count"),
        AuditColumn("share", "percent"),
        AuditColumn("low", "percent"),
        AuditColumn("high", "percent"),
        AuditColumn("supports", "percent"),
        AuditColumn("example"),
        AuditColumn("counter-example"),
    )
    title = f"{part.capitalize()}s that speak most {side} each class"
    return AuditTable(title, columns, tuple(rows), SHARE_NOTE.format(part=part), shown=20)


def _cells(ranked: RankedPart) -> tuple[Cell, ...]:
    share = ranked.share
    return (
        ranked.part,
        ranked.samples,
        share.value,
        share.low,
        share.high,
        ranked.supports,
        ranked.example,
        ranked.counter,
    )


def _terms(samples: Mapping[str, Sequence[ExplainedSample]], bootstrap: Bootstrap) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for model, explained in samples.items():
        for label in dict.fromkeys(one.label for one in explained):
            shares = [
                one.terms for one in explained if one.label == label and one.terms is not None
            ]
            if shares:
                mean = bootstrap.mean(shares)
                there = fmean(share > 0 for share in shares)
                rows.append((model, label, len(shares), mean.value, mean.low, mean.high, there))
    columns = (
        AuditColumn("model"),
        AuditColumn("class"),
        AuditColumn("samples", "count"),
        AuditColumn("share on terms", "percent"),
        AuditColumn("low", "percent"),
        AuditColumn("high", "percent"),
        AuditColumn("samples with a term", "percent"),
    )
    note = "Share of all |relevance| on the listed terms; 0 in samples without one."
    return AuditTable("Relevance on the listed terms", columns, tuple(rows), note)


def _models(models: Sequence[str], differences: Sequence[PartDifference], part: str) -> AuditTable:
    if len(models) < 2:
        return AuditTable("", (), ())
    first, second = models
    rows = [
        (
            one.part,
            one.samples,
            one.first,
            one.second,
            one.difference.value,
            one.difference.low,
            one.difference.high,
            one.difference.clear,
        )
        for one in differences
    ]
    columns = (
        AuditColumn(part),
        AuditColumn("samples", "count"),
        AuditColumn(first, "percent"),
        AuditColumn(second, "percent"),
        AuditColumn("difference", "percent"),
        AuditColumn("low", "percent"),
        AuditColumn("high", "percent"),
        AuditColumn("significant"),
    )
    note = "Over samples for which both models were asked about the same class."
    title = f"{part.capitalize()}s that the models use most differently"
    return AuditTable(title, columns, tuple(rows), note, shown=20)


# -- headline and charts -------------------------------------------------------------------------


def headline(
    rankings: Mapping[str, Sequence[ClassRanking]],
    samples: Mapping[str, Sequence[ExplainedSample]],
    differences: Sequence[PartDifference],
) -> tuple[str, ...]:
    """Return one sentence for each class of each model, and one about two models."""
    several = len(rankings) > 1
    sentences = []
    for model, classes in rankings.items():
        owner = f"{model}: " if several else ""
        for ranking in classes:
            clear = [ranked.part for ranked in ranking.supporting if ranked.share.low > 0][:5]
            if clear:
                listing = ", ".join(clear)
                sentences.append(f"{owner}{ranking.label} is supported most by: {listing}.")
            else:
                sentences.append(
                    f"{owner}No part speaks significantly for {ranking.label}"
                    f" ({ranking.samples} samples)."
                )
    if several:
        first, second = samples.values()
        same = fmean(a.label == b.label for a, b in zip(first, second, strict=True))
        clear = [one.part for one in differences if one.difference.clear]
        listing = f": {', '.join(clear[:5])}" if clear else ""
        sentences.append(
            f"Both models were explained for the same class in {100 * same:.1f} % of the samples;"
            f" they use {len(clear)} of {len(differences)} compared parts significantly"
            f" differently{listing}."
        )
    return tuple(sentences)


def charts(rankings: Mapping[str, Sequence[ClassRanking]]) -> tuple[Chart, ...]:
    """Return a chart of the strongest parts for each class."""
    several = len(rankings) > 1
    found = []
    for model, classes in rankings.items():
        for ranking in classes[:MOST_CHARTS]:
            strongest = (*ranking.supporting[:CHARTED], *reversed(ranking.opposing[:CHARTED]))
            points = tuple(Point(ranked.part, ranked.share) for ranked in strongest)
            if points:
                title = f"{model}: {ranking.label}" if several else ranking.label
                found.append(Chart(f"{title}, share of |relevance|", points, percent=True))
    return tuple(found)
