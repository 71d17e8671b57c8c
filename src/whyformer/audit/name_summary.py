"""The headline and the charts of a names audit."""

from __future__ import annotations

from collections.abc import Mapping

from whyformer.audit.findings import AuditColumn, AuditTable, Cell, Chart, Point
from whyformer.audit.name_tables import ANSWER, CLASSES, MODEL, RELEVANCE
from whyformer.statistics.bootstrap import Estimate


def headline(tables: Mapping[str, AuditTable], target: str) -> tuple[str, ...]:
    """Return the significant differences as sentences, or one that says there are none."""
    table = tables.get("differences")
    if table is None:
        return ("There is only one group of names, so there is nothing to compare.",)
    wording = {m: (words, kind) for m, words, kind in RELEVANCE + ANSWER + CLASSES}
    found = []
    for row in table.records():
        if not row["significant"]:
            continue
        words, kind = wording[str(row["measure"])]
        column = AuditColumn("", kind)
        difference, low, high = (row[part] for part in ("difference", "low", "high"))
        more = "higher" if float(difference or 0) > 0 else "lower"
        by = "" if row["of"] == MODEL else f" by {row['of']}"
        found.append(
            f"{words[0].upper()}{words[1:]}{by} is {more} for '{row['group']}' than for"
            f" '{row['minus group']}': {column.format(difference)}"
            f" [{column.format(low)}, {column.format(high)}].{_matched_sentence(row, column)}"
        )
    total = len(table.rows)
    if not found:
        return (f"No significant difference between groups ({total} tested).",)
    count = f"{len(found)} of {total} differences between groups are significant"
    return (f"{count}, for the target {target!r}.", *found)


def _matched_sentence(row: Mapping[str, Cell], column: AuditColumn) -> str:
    """A sentence on the difference between names of the same token count, if that one differs."""
    value, low, high = (row[part] for part in ("same length", "same low", "same high"))
    if value is None:
        return " The two groups share no token count."
    if value == row["difference"]:
        return ""
    return (
        f" With names of the same token count only ({row['matched']} per group):"
        f" {column.format(value)}"
        f" [{column.format(low)}, {column.format(high)}]."
    )


def charts(tables: Mapping[str, AuditTable]) -> tuple[Chart, ...]:
    """Return one chart of differences per measure, and one of flipped predictions."""
    found: list[Chart] = []
    records = tables["differences"].records() if "differences" in tables else []
    for measure, words, kind in RELEVANCE + ANSWER + CLASSES:
        own = [row for row in records if row["measure"] == measure]
        several = len({row["of"] for row in own}) > 1
        points = tuple(
            Point(
                f"{row['group']} \N{MINUS SIGN} {row['minus group']}"
                + (f", {row['of']}" * several),
                _estimate(row, "difference", "low", "high"),
            )
            for row in own
        )
        if points:
            found.append(Chart(f"Difference in {words}", points, kind == "percent"))
    if "swaps" in tables:
        points = tuple(
            Point(
                f"{row['name of']} \N{RIGHTWARDS ARROW} {row['replaced by one of']}",
                _estimate(row, "flips", "low", "high"),
            )
            for row in tables["swaps"].records()
            if row["flips"] is not None
        )
        found.append(
            Chart("Predictions that change when the name is replaced", points, percent=True)
        )
    return tuple(found)


def _estimate(row: Mapping[str, Cell], *columns: str) -> Estimate:
    value, low, high = (float(row[column] or 0) for column in columns)
    return Estimate(value, low, high)
