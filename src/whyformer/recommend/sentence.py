"""The answer in words, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from whyformer.evaluation.formatting import count_text, number_text
from whyformer.recommend.race import FIRST, RaceResult
from whyformer.recommend.recommendation import MethodRow

BASELINE = "random"


def sentence_of(rows: Sequence[MethodRow], result: RaceResult) -> str:
    """Which method to use, on what evidence, and why this one of several that are level."""
    chosen, *rest = rows
    level = [row for row in rest if row.outcome == "level"]
    worse = [row for row in rest if row.outcome == "dropped" and math.isfinite(row.p)]
    numbers = ", ".join(f"{one.measure} {number_text(one.value)}" for one in chosen.values)
    on = f"on {count_text(result.samples, 'sample')}"
    if any(row.method == BASELINE for row in [chosen, *level]):
        return (
            f"No method is significantly better than random scores {on}. {chosen.label} is the"
            f" best guess ({numbers}); more samples may tell."
        )
    if not level:
        if not worse:
            return f"Use {chosen.label} ({numbers}): no other method could be measured."
        others = "the other method" if len(worse) == 1 else f"all {len(worse)} other methods"
        return f"Use {chosen.label}: {on} it is significantly better than {others} ({numbers})."
    names = _names([row.label for row in level])
    return (
        f"Use {chosen.label}: {on} no method is significantly better ({numbers}). {names}"
        f" {'is' if len(level) == 1 else 'are'} level with it; {_preference(chosen, level)}."
    )


def _preference(chosen: MethodRow, level: Sequence[MethodRow]) -> str:
    """Why this one of several that do not differ significantly."""
    if all(chosen.behind <= row.behind for row in level):
        sums = ", and its scores add up to the output" if chosen.conserves else ""
        return f"{chosen.label} has the best mean{sums}"
    if chosen.conserves and not all(row.conserves for row in level):
        return f"{chosen.label} is preferred because its scores add up to the output"
    return f"{chosen.label} is preferred because it is cheaper"


def _names(labels: Sequence[str], most: int = 4) -> str:
    if len(labels) > most:
        return f"{', '.join(labels[:most])} and {len(labels) - most} more"
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))


def notes_of(rows: Sequence[MethodRow], result: RaceResult, limit: float) -> tuple[str, ...]:
    """What limits the answer, as sentences."""
    found = []
    if result.out_of_time:
        found.append(
            f"The time of {limit:g} seconds was over before all samples were measured. More"
            " seconds may separate the methods that are level"
        )
    unmeasured = [row for row in rows if row.reason.startswith("not measured")]
    if unmeasured:
        found.append(
            f"{count_text(len(unmeasured), 'method')} could not be measured in {limit:g} seconds"
        )
    if result.skipped:
        found.append(f"{count_text(result.skipped, 'sample')} skipped: fewer than two tokens")
    if result.samples < FIRST:
        found.append(
            f"{count_text(result.samples, 'sample')} can only show large differences. Use 32 or"
            " more"
        )
    if len(result.streams) > 1:
        first, *others = result.streams
        found.append(
            f"Tokens were removed from '{first}' only; methods are not compared on"
            f" {', '.join(map(repr, others))}"
        )
    failed = [row for row in rows if row.reason.startswith("cannot run")]
    if failed:
        found.append(
            f"{count_text(len(failed), 'method')} cannot explain this model; see the table"
        )
    return tuple(f"{note}." for note in found)
