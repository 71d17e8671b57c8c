"""The tables of a names audit: groups, their differences, swaps, tones, names, templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean

from whyformer.audit.findings import Cell, Column, Kind, Table
from whyformer.audit.grid import Grid
from whyformer.statistics.bootstrap import Bootstrap, Estimate, matching_weights

MODEL = "model"  # in place of a method: the measure is of the answer, whatever explains it
EXTREMES = 5

# What is measured, what it is called, and how it is written.
RELEVANCE: tuple[tuple[str, str, Kind], ...] = (
    ("relevance", "relevance of the name", "signed"),
    ("share", "share of all |relevance|", "percent"),
)
ANSWER: tuple[tuple[str, str, Kind], ...] = (("output", "score of the target", "signed"),)
CLASSES: tuple[tuple[str, str, Kind], ...] = (
    ("probability", "probability of the target", "percent"),
    ("decided", "rate of decisions for the target", "percent"),
)


def name_tables(grids: Mapping[str, Grid], bootstrap: Bootstrap, target: str) -> dict[str, Table]:
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


def _answers(grid: Grid) -> tuple[tuple[str, str, Kind], ...]:
    return ANSWER + (CLASSES if grid.has_classes else ())


def _groups(grids: Mapping[str, Grid], bootstrap: Bootstrap, target: str) -> Table:
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
        Column("method"),
        Column("group"),
        Column("names", "count"),
        Column("tokens per name", "number"),
        Column("relevance", "signed"),
        Column("low", "signed"),
        Column("high", "signed"),
        Column("share", "percent"),
        Column("even share", "percent"),
        *(Column(measure, kind) for measure, _, kind in _answers(grid)),
    )
    note = (
        "Relevance is the sum over the name's tokens, share its part of the |relevance| of all"
        " tokens, even share what it would be if every token had the same. Output is the score of"
        f" {target!r}, decided the part of sentences in which it is predicted."
    )
    return Table("What a name carries, by group", columns, tuple(rows), note)


def _differences(grids: Mapping[str, Grid], bootstrap: Bootstrap) -> Table:
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
                same = (alike, *_three(matched))
                rows.append((source, measure, first, second, *_three(found), found.clear, *same))
    columns = (
        Column("of"),
        Column("measure"),
        Column("group"),
        Column("less group"),
        Column("difference", "signed"),
        Column("low", "signed"),
        Column("high", "signed"),
        Column("leaves 0 out"),
        Column("alike", "count"),
        Column("same length", "signed"),
        Column("same low", "signed"),
        Column("same high", "signed"),
    )
    note = (
        "Mean of the first group less mean of the second over the same templates. Intervals are"
        f" {100 * bootstrap.level:g} % of {bootstrap.draws} draws of templates (the same for both"
        " groups) and of names within each group. 'Same length' weighs the names so that both"
        " groups have the same token counts; alike is how many names there then are in each, and"
        " of few an interval says little. Shares, probabilities and decisions are fractions of 1."
        " Of many intervals some leave 0 out by chance, about"
        f" 1 in {round(1 / (1 - bootstrap.level))}."
    )
    return Table("Differences between groups", columns, tuple(rows), note, shown=20)


def _swaps(grid: Grid, bootstrap: Bootstrap) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for first, second in [*grid.pairs, *((group, group) for group in grid.groups)]:
        counts, within = grid.different(first, second), first == second
        flips = bootstrap.pair_mean(grid.flips(first, second), counts, within=within)
        shifts = bootstrap.pair_mean(grid.shifts(first, second), counts, within=within)
        rows.append((first, second, *_three(flips), *_three(shifts)))
    columns = (
        Column("name of"),
        Column("swapped for one of"),
        Column("flips", "percent"),
        Column("low", "percent"),
        Column("high", "percent"),
        Column("shift", "percent"),
        Column("shift low", "percent"),
        Column("shift high", "percent"),
    )
    note = (
        "Flips: how often the predicted class changes when the name in a sentence is swapped and"
        " nothing else. Shift: by how much the probability of the target moves, without its sign."
        " Swaps within a group are what to compare with."
    )
    return Table("Swapped names", columns, tuple(rows), note)


def _tones(grid: Grid) -> Table:
    tones = list(dict.fromkeys(template.tone for template in grid.templates))
    measures = ("relevance", "share", *(m for m, *_ in _answers(grid)))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (tone, group, *(float(grid.values(m, group, tone).mean()) for m in measures))
        for tone in tones
        for group in grid.groups
    )
    kinds = {m: kind for m, _, kind in RELEVANCE + ANSWER + CLASSES}
    columns = (Column("templates"), Column("group"), *(Column(m, kinds[m]) for m in measures))
    return Table("By tone of the template", columns, rows if len(tones) > 1 else ())


def _named(grids: Mapping[str, Grid]) -> list[tuple[Cell, ...]]:
    """Method, name, group, tokens and the means of every measure, strongest relevance first."""
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


def _name_columns(grids: Mapping[str, Grid]) -> tuple[Column, ...]:
    grid = next(iter(grids.values()))
    kinds = {m: kind for m, _, kind in RELEVANCE + ANSWER + CLASSES}
    measures = ("relevance", "share", *(m for m, *_ in _answers(grid)))
    heads = (Column("method"), Column("name"), Column("group"), Column("tokens", "count"))
    return (*heads, *(Column(m, kinds[m]) for m in measures))


def _names(grids: Mapping[str, Grid]) -> Table:
    note = "Means over the templates, from the most relevant name for the target to the least."
    return Table("Every name", _name_columns(grids), tuple(_named(grids)), note)


def _extremes(grids: Mapping[str, Grid]) -> Table:
    """The names with the most and the least relevance, of each method."""
    rows: list[tuple[Cell, ...]] = []
    for method in grids:
        own = [row for row in _named(grids) if row[0] == method]
        few = min(EXTREMES, len(own) // 2)
        rows += own[:few] + own[len(own) - few :]
    return Table("Most and least relevant names", _name_columns(grids), tuple(rows), shown=20)


def _templates(grid: Grid) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for at, template in enumerate(grid.templates):
        said = Counter(p for group in grid.groups for p in grid.predictions(group)[at])
        usual, count = said.most_common(1)[0]
        chances = [
            chance
            for group in grid.groups
            for chance in grid.values("probability", group)[at].tolist()
        ]
        others = said.total() - count
        rows.append((template.text, template.tone, usual, others, min(chances), max(chances)))
    rows.sort(key=lambda row: -float(row[3] or 0))
    columns = (
        Column("template"),
        Column("tone"),
        Column("usually"),
        Column("names that flip it", "count"),
        Column("least probability", "percent"),
        Column("most probability", "percent"),
    )
    return Table("Every template", columns, tuple(rows))


def _three(estimate: Estimate | None) -> tuple[Cell, Cell, Cell]:
    return (estimate.value, estimate.low, estimate.high) if estimate else (None, None, None)
