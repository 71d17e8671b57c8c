"""Numbers, names and facts of a run as people read them: every table and page says them alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from whyformer.attribution.characters import hide_controls
from whyformer.evaluation.results import Results

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"  # where there is no number
ALIKE = "\N{ALMOST EQUAL TO}"  # after a value that is not told apart from the best one
ARROWS = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}"}


def visible(text: object) -> str:
    """Return the text on one line, without control and bidirectional characters."""
    return hide_controls(text)


def places(size: float) -> int | None:
    """How many decimals numbers up to `size` need, so that those in one column line up.

    Three or four digits; None where only powers of ten can tell the numbers.
    """
    size = abs(size)
    if not math.isfinite(size) or (size and not 1e-4 <= size < 1e6):
        return None
    if size == 0 or 0.1 <= size < 10:
        return 3
    digits = math.floor(math.log10(size))
    return max(0, 3 - digits if size >= 10 else 2 - digits)


def shown(value: float, decimals: int | None = 3) -> str:
    """A number with a true minus; a dash where there is none."""
    if not math.isfinite(value):
        return NOTHING
    text = f"{value:.2e}" if decimals is None else f"{value:.{decimals}f}"
    # What rounds to 0 has no sign.
    return (text if text.strip("-0.e+") else text.lstrip("-")).replace("-", MINUS)


def spread(low: float, high: float, decimals: int | None = 3) -> str:
    """An interval as [low, high]; nothing where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"[{shown(low, decimals)}, {shown(high, decimals)}]"


def listed(values: Sequence[float]) -> str:
    """Numbers in a row, as short as they can be written."""
    return ", ".join(f"{value:g}" for value in values)


def counted(count: int, one: str) -> str:
    """'1 sample', '2 samples'."""
    return f"{count} {one}{'' if count == 1 else 's'}"


def said(value: Any) -> str:
    """A setting in words: key=value pairs, lists with commas."""
    if isinstance(value, Mapping):
        return visible(", ".join(f"{k}={said(v)}" for k, v in value.items()))
    if isinstance(value, list | tuple):
        return visible(", ".join(said(v) for v in value))
    return visible(f"{value:g}" if isinstance(value, float) else value)


# -- facts of the run ------------------------------------------------------------------------


def part(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """One group of the settings; empty where it was not written down."""
    found = settings.get(name)
    return found if isinstance(found, Mapping) else {}


def facts(results: Results) -> list[tuple[str, str]]:
    """(name, value) of what was measured on what; what is not known is left out."""
    settings = results.settings
    model, data = part(settings, "model"), part(settings, "data")
    skipped = data.get("skipped") or ()
    pairs = [
        ("model", model.get("name")),
        ("class", model.get("class")),
        ("family", model.get("family")),
        ("fingerprint", model.get("fingerprint")),
        ("data", data.get("source")),
        ("split", data.get("split")),
        ("samples", samples(results)),
        ("skipped", len(skipped) if isinstance(skipped, list | tuple) else skipped),
        ("removed tokens", settings.get("fill")),
        ("seed", settings.get("seed")),
    ]
    return [
        (name, said(value))
        for name, value in pairs
        if value not in (None, "") and (name, value) != ("skipped", 0)
    ]


def samples(results: Results) -> int:
    """How many samples were measured: those of the largest place of the table."""
    return max((len(rows) for rows in results.cells.values()), default=0)


def versions(results: Results) -> list[tuple[str, str]]:
    """(package, version) of what the run was made with."""
    known = part(results.settings, "versions")
    return [(visible(name), said(value)) for name, value in known.items()]


def convention(known: Mapping[str, Any]) -> str:
    """How a metric was taken, in a sentence or two: its convention, its steps, its options."""
    told = visible(known.get("convention") or "")
    steps = listed(known.get("steps") or ())
    if steps and steps not in told:
        told = f"{told.rstrip('. ')}; steps {steps}" if told else f"steps {steps}"
    options = part(known, "options")
    if options:
        told = f"{told.rstrip('. ')}; options {said(options)}" if told else said(options)
    return told


def explained(target: str) -> str:
    """Which class a table is about, as a heading."""
    told = {"predicted": "The predicted class explained", "label": "The true class explained"}
    return told.get(target, f"Explained: {visible(target)}")
