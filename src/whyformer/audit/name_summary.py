"""What the tables of a names audit say in short: sentences, and charts with intervals."""

from __future__ import annotations

from collections.abc import Mapping

from whyformer.audit.bootstrap import Estimate
from whyformer.audit.findings import AuditColumn, AuditTable, Cell, Chart, Point
from whyformer.audit.name_tables import ANSWER, CLASSES, MODEL, RELEVANCE


def headline(tables: Mapping[str, AuditTable], target: str) -> tuple[str, ...]:
    """The differences that leave 0 out, as sentences; or that there are none."""
    table = tables.get("differences")
    if table is None:
        return ("There is one group of names: nothing to compare it with.",)
    called = {m: (words, kind) for m, words, kind in RELEVANCE + ANSWER + CLASSES}
    found = []
    for row in table.records():
        if not row["leaves 0 out"]:
            continue
        words, kind = called[str(row["measure"])]
        column = AuditColumn("", kind)
        difference, low, high = (row[part] for part in ("difference", "low", "high"))
        more = "higher" if float(difference or 0) > 0 else "lower"
        by = "" if row["of"] == MODEL else f" by {row['of']}"
        found.append(
            f"{words[0].upper()}{words[1:]}{by} is {more} for '{row['group']}' than for"
            f" '{row['less group']}': {column.format(difference)}"
            f" [{column.format(low)}, {column.format(high)}].{_matched(row, column)}"
        )
    total = len(table.rows)
    if not found:
        return (f"None of {total} differences between groups has an interval that leaves 0 out.",)
    told = f"{len(found)} of {total} differences between groups leave 0 out, for {target!r}."
    return (told, *found)


def _matched(row: Mapping[str, Cell], column: AuditColumn) -> str:
    """A sentence on the same difference between names of the same length, where it is another."""
    value, low, high = (row[part] for part in ("same length", "same low", "same high"))
    if value is None:
        return " No names of the two groups have the same token count."
    if value == row["difference"]:
        return ""
    return (
        f" Between names of the same token counts, {row['alike']} in each group:"
        f" {column.format(value)}"
        f" [{column.format(low)}, {column.format(high)}]."
    )


def charts(tables: Mapping[str, AuditTable]) -> tuple[Chart, ...]:
    """The differences with their intervals, one chart per measure, and the flips."""
    found: list[Chart] = []
    records = tables["differences"].records() if "differences" in tables else []
    for measure, words, kind in RELEVANCE + ANSWER + CLASSES:
        own = [row for row in records if row["measure"] == measure]
        several = len({row["of"] for row in own}) > 1
        points = tuple(
            Point(
                f"{row['group']} less {row['less group']}" + (f", {row['of']}" * several),
                _estimate(row, "difference", "low", "high"),
            )
            for row in own
        )
        if points:
            found.append(Chart(f"Difference in {words}", points, kind == "percent"))
    if "swaps" in tables:
        points = tuple(
            Point(
                f"{row['name of']} for {row['swapped for one of']}",
                _estimate(row, "flips", "low", "high"),
            )
            for row in tables["swaps"].records()
            if row["flips"] is not None
        )
        found.append(Chart("Predictions that flip when names are swapped", points, percent=True))
    return tuple(found)


def _estimate(row: Mapping[str, Cell], *columns: str) -> Estimate:
    value, low, high = (float(row[column] or 0) for column in columns)
    return Estimate(value, low, high)
