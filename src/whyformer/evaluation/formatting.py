"""Formatting of numbers, names and facts of a run, the same in every table and page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from whyformer.attribution.characters import hide_controls
from whyformer.evaluation.results import Results

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"  # in place of a missing number
ALIKE = "\N{ALMOST EQUAL TO}"  # after a value that does not differ significantly from the best
ARROWS = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}"}


def visible(text: object) -> str:
    """Return the text on one line, without control and bidirectional characters."""
    return hide_controls(text)


def decimals_for(size: float) -> int | None:
    """The decimals for a column of numbers up to `size`: three or four digits.

    None if the numbers need an exponent.
    """
    size = abs(size)
    if not math.isfinite(size) or (size and not 1e-4 <= size < 1e6):
        return None
    if size == 0 or 0.1 <= size < 10:
        return 3
    digits = math.floor(math.log10(size))
    return max(0, 3 - digits if size >= 10 else 2 - digits)


def number_text(value: float, decimals: int | None = 3) -> str:
    """A number with a minus sign; a dash if it is not finite."""
    if not math.isfinite(value):
        return NOTHING
    text = f"{value:.2e}" if decimals is None else f"{value:.{decimals}f}"
    # A number that rounds to 0 has no sign.
    return (text if text.strip("-0.e+") else text.lstrip("-")).replace("-", MINUS)


def interval_text(low: float, high: float, decimals: int | None = 3) -> str:
    """An interval as [low, high]; empty if it is not finite."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"[{number_text(low, decimals)}, {number_text(high, decimals)}]"


def number_list(values: Sequence[float]) -> str:
    """Numbers as a short text, separated by commas."""
    return ", ".join(f"{value:g}" for value in values)


def count_text(count: int, one: str) -> str:
    """'1 sample', '2 samples'."""
    return f"{count} {one}{'' if count == 1 else 's'}"


def setting_text(value: Any) -> str:
    """A setting as text: key=value pairs, lists with commas."""
    if isinstance(value, Mapping):
        return visible(", ".join(f"{k}={setting_text(v)}" for k, v in value.items()))
    if isinstance(value, list | tuple):
        return visible(", ".join(setting_text(v) for v in value))
    return visible(f"{value:g}" if isinstance(value, float) else value)


# -- facts of the run ------------------------------------------------------------------------


def settings_group(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """One group of the settings; empty if it is missing."""
    found = settings.get(name)
    return found if isinstance(found, Mapping) else {}


def run_facts(results: Results) -> list[tuple[str, str]]:
    """(name, value) of the model, the data and the settings, as far as they are known."""
    settings = results.settings
    model, data = settings_group(settings, "model"), settings_group(settings, "data")
    skipped = data.get("skipped") or ()
    pairs = [
        ("model", model.get("name")),
        ("class", model.get("class")),
        ("family", model.get("family")),
        ("fingerprint", model.get("fingerprint")),
        ("data", data.get("source")),
        ("split", data.get("split")),
        ("samples", sample_count(results)),
        ("skipped", len(skipped) if isinstance(skipped, list | tuple) else skipped),
        ("failed", len(results.failures)),
        ("removed tokens", settings.get("fill")),
        ("seed", settings.get("seed")),
    ]
    return [
        (name, setting_text(value))
        for name, value in pairs
        if value not in (None, "") and (name, value) not in (("skipped", 0), ("failed", 0))
    ]


def failure_lines(results: Results, most: int) -> list[str]:
    """One line per sample that could not be evaluated, at most some of them."""
    failures = results.failures
    more = [f"and {len(failures) - most} more"] if len(failures) > most else []
    lines = [f"{one['sample']}: {one['error']}" for one in failures[:most]]
    return [*map(setting_text, lines), *more]


def sample_count(results: Results) -> int:
    """How many samples were measured: those of the largest cell of the table."""
    return max((len(rows) for rows in results.cells.values()), default=0)


def package_versions(results: Results) -> list[tuple[str, str]]:
    """(package, version) of the packages of the run."""
    known = settings_group(results.settings, "versions")
    return [(visible(name), setting_text(value)) for name, value in known.items()]


def convention_text(known: Mapping[str, Any]) -> str:
    """How a metric was computed: its convention, steps and options."""
    text = visible(known.get("convention") or "")
    steps = number_list(known.get("steps") or ())
    if steps and steps not in text:
        text = f"{text.rstrip('. ')}; steps {steps}" if text else f"steps {steps}"
    options = settings_group(known, "options")
    if options:
        chosen = setting_text(options)
        text = f"{text.rstrip('. ')}; options {chosen}" if text else chosen
    return text


def target_title(target: str) -> str:
    """The heading of a target: which class was explained."""
    titles = {"predicted": "Explaining the predicted class", "label": "Explaining the true class"}
    return titles.get(target, f"Explaining {visible(target)}")
