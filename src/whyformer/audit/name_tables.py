"""The tables of a names audit: groups, differences, swaps, tones, names, templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean

from whyformer.audit.findings import AuditColumn, AuditTable, Cell, Kind
from whyformer.audit.grid import NameGrid
from whyformer.statistics.bootstrap import Bootstrap, Estimate, matching_weights

MODEL = "model"  # in place of a method: the measure is of the prediction itself
EXTREMES = 5

# Measure, its name in sentences, and the format of its numbers.
RELEVANCE: tuple[tuple[str, str, Kind], ...] = (
    ("relevance", "relevance of the name", "signed"),
    ("share", "share of all |relevance|", "percent"),
)
ANSWER: tuple[tuple[str, str, Kind], ...] = (("output", "score of the target", "signed"),)
CLASSES: tuple[tuple[str, str, Kind], ...] = (
    ("probability", "probability of the target", "percent"),
    ("decided", "rate of predictions of the target", "percent"),
)


def name_tables(
    grids: Mapping[str, NameGrid], bootstrap: Bootstrap, target: str
) -> dict[str, AuditTable]:
    """All tables by name."""
    first = next(iter(grids.values()))
    tables = {
        "groups": _groups(grids, bootstrap, target),
        "differences": _differences(grids, bootstrap),
    }
    if first.has_classes:
        tables["swaps"] = _swaps(first, bootstrap)
    tables |= {
        "extremes": _extremes(grids),
        "tones": _tones(first),
        "names": _names(grids),
    }
    if first.has_classes:
        tables["templates"] = _templates(first)
    return {name: table for name, table in tables.items() if table.rows}


def _answers(grid: NameGrid) -> tuple[tuple[str, str, Kind], ...]:
    return ANSWER + (CLASSES if grid.has_classes else ())


def _groups(grids: Mapping[str, NameGrid], bootstrap: Bootstrap, target: str) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for method, grid in grids.items():
        for group, names in grid.names.groups.items():
            relevance = bootstrap.grid_mean(grid.values("relevance", group))
            row: list[Cell] = [method, group, len(names), fmean(grid.tokens(group))]
            row += [relevance.value, relevance.low, relevance.high]
            row += [float(grid.values(m, group).mean()) for m in ("share", "even_share")]
            row += [float(grid.values(m, group).mean()) for m, *_ in _answers(grid)]
            rows.append(tuple(row))
    grid = next(iter(grids.values()))
    columns = (
        AuditColumn("method"),
        AuditColumn("group"),
        AuditColumn("names", "count"),
        AuditColumn("tokens per name", "number"),
        AuditColumn("relevance", "signed"),
        AuditColumn("low", "signed"),
        AuditColumn("high", "signed"),
        AuditColumn("share", "percent"),
        AuditColumn("even share", "percent"),
        *(AuditColumn(measure, kind) for measure, _, kind in _answers(grid)),
    )
    note = (
        "Relevance: sum over the name's tokens. Share: the name's part of all |relevance|. Even"
        " share: its part if all tokens had equal relevance. Output: the score of"
        f" {target!r}. Decided: the part of the sentences for which it is predicted."
    )
    return AuditTable("Relevance of names, by group", columns, tuple(rows), note)


def _differences(grids: Mapping[str, NameGrid], bootstrap: Bootstrap) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for number, (method, grid) in enumerate(grids.items()):
        measured = [(method, m) for m, *_ in RELEVANCE]
        measured += [(MODEL, m) for m, *_ in _answers(grid)] if number == 0 else []
        for source, measure in measured:
            for first, second in grid.pairs:
                ours, theirs = grid.values(measure, first), grid.values(measure, second)
                found = bootstrap.grid_difference(ours, theirs)
                weights = matching_weights(grid.tokens(first), grid.tokens(second))
                matched: Estimate | None = None
                if weights is not None:
                    matched = bootstrap.grid_difference(ours, theirs, weights)
                alike = 0 if weights is None else round(float(weights[0].sum()))
                same = (alike, *_three_cells(matched))
                rows.append(
                    (source, measure, first, second, *_three_cells(found), found.clear, *same)
                )
    columns = (
        AuditColumn("of"),
        AuditColumn("measure"),
        AuditColumn("group"),
        AuditColumn("minus group"),
        AuditColumn("difference", "signed"),
        AuditColumn("low", "signed"),
        AuditColumn("high", "signed"),
        AuditColumn("significant"),
        AuditColumn("matched", "count"),
        AuditColumn("same length", "signed"),
        AuditColumn("same low", "signed"),
        AuditColumn("same high", "signed"),
    )
    note = (
        "Mean of the first group minus mean of the second, over the same templates. Intervals:"
        f" {100 * bootstrap.level:g} % of {bootstrap.draws} bootstrap draws of templates (the same"
        " for both groups) and of names within each group; a difference is significant if its"
        " interval does not contain 0. 'Same length' weights the names so that both groups have"
        " the same token counts; 'matched' is how many names of each group remain, and with few"
        " of them the interval is unreliable. Shares, probabilities and decisions are fractions"
        " of 1. By chance alone, about"
        f" 1 in {round(1 / (1 - bootstrap.level))} differences is significant."
    )
    return AuditTable("Differences between groups", columns, tuple(rows), note, shown=20)


def _swaps(grid: NameGrid, bootstrap: Bootstrap) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for first, second in [*grid.pairs, *((group, group) for group in grid.groups)]:
        counts, within = grid.different(first, second), first == second
        flips = bootstrap.pair_mean(grid.flips(first, second), counts, within=within)
        shifts = bootstrap.pair_mean(grid.shifts(first, second), counts, within=within)
        rows.append((first, second, *_three_cells(flips), *_three_cells(shifts)))
    columns = (
        AuditColumn("name of"),
        AuditColumn("replaced by one of"),
        AuditColumn("flips", "percent"),
        AuditColumn("low", "percent"),
        AuditColumn("high", "percent"),
        AuditColumn("shift", "percent"),
        AuditColumn("shift low", "percent"),
        AuditColumn("shift high", "percent"),
    )
    note = (
        "Flips: how often the predicted class changes when only the name in a sentence is"
        " replaced. Shift: the absolute change of the target's probability. Compare with"
        " replacements within the same group."
    )
    return AuditTable("Replaced names", columns, tuple(rows), note)


def _tones(grid: NameGrid) -> AuditTable:
    tones = list(dict.fromkeys(template.tone for template in grid.templates))
    measures = ("relevance", "share", *(m for m, *_ in _answers(grid)))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (tone, group, *(float(grid.values(m, group, tone).mean()) for m in measures))
        for tone in tones
        for group in grid.groups
    )
    kinds = {m: kind for m, _, kind in RELEVANCE + ANSWER + CLASSES}
    columns = (
        AuditColumn("templates"),
        AuditColumn("group"),
        *(AuditColumn(m, kinds[m]) for m in measures),
    )
    return AuditTable("By tone of the template", columns, rows if len(tones) > 1 else ())


def _name_rows(grids: Mapping[str, NameGrid]) -> list[tuple[Cell, ...]]:
    """Method, name, group, tokens and the mean of every measure; highest relevance first."""
    rows: list[tuple[Cell, ...]] = []
    for method, grid in grids.items():
        measures = ("relevance", "share", *(m for m, *_ in _answers(grid)))
        found: list[tuple[Cell, ...]] = []
        for group, names in grid.names.groups.items():
            means = [grid.values(m, group).mean(0).tolist() for m in measures]
            found += zip(
                [method] * len(names),
                names,
                [group] * len(names),
                grid.tokens(group),
                *means,
                strict=True,
            )
        rows += sorted(found, key=lambda row: -float(row[4] or 0))
    return rows


def _name_columns(grids: Mapping[str, NameGrid]) -> tuple[AuditColumn, ...]:
    grid = next(iter(grids.values()))
    kinds = {m: kind for m, _, kind in RELEVANCE + ANSWER + CLASSES}
    measures = ("relevance", "share", *(m for m, *_ in _answers(grid)))
    heads = (
        AuditColumn("method"),
        AuditColumn("name"),
        AuditColumn("group"),
        AuditColumn("tokens", "count"),
    )
    return (*heads, *(AuditColumn(m, kinds[m]) for m in measures))


def _names(grids: Mapping[str, NameGrid]) -> AuditTable:
    note = "Means over the templates, highest relevance for the target first."
    return AuditTable("Every name", _name_columns(grids), tuple(_name_rows(grids)), note)


def _extremes(grids: Mapping[str, NameGrid]) -> AuditTable:
    """The names with the highest and the lowest relevance, by method."""
    rows: list[tuple[Cell, ...]] = []
    for method in grids:
        own = [row for row in _name_rows(grids) if row[0] == method]
        few = min(EXTREMES, len(own) // 2)
        rows += own[:few] + own[len(own) - few :]
    return AuditTable(
        "Names with the highest and lowest relevance", _name_columns(grids), tuple(rows), shown=20
    )


def _templates(grid: NameGrid) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for at, template in enumerate(grid.templates):
        predicted = Counter(p for group in grid.groups for p in grid.predictions(group)[at])
        usual, count = predicted.most_common(1)[0]
        chances = [
            chance
            for group in grid.groups
            for chance in grid.values("probability", group)[at].tolist()
        ]
        others = predicted.total() - count
        rows.append((template.text, template.tone, usual, others, min(chances), max(chances)))
    rows.sort(key=lambda row: -float(row[3] or 0))
    columns = (
        AuditColumn("template"),
        AuditColumn("tone"),
        AuditColumn("usual prediction"),
        AuditColumn("names that change it", "count"),
        AuditColumn("lowest probability", "percent"),
        AuditColumn("highest probability", "percent"),
    )
    return AuditTable("Every template", columns, tuple(rows))


def _three_cells(estimate: Estimate | None) -> tuple[Cell, Cell, Cell]:
    return (estimate.value, estimate.low, estimate.high) if estimate else (None, None, None)
