"""Several attributions of one input, checked to be that and lined up sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.views.reading import ImagePanel, Panel, Reading, TextPanel, read, visible

OWN_SCALES = (
    "Each method has its own scale, full at its strongest word or patch: compare order and sign,"
    " not size."
)
ACROSS = (
    " A method whose scores add up has one scale for all streams; any other has one for each"
    " stream."
)


@dataclass(frozen=True)
class Comparison:
    """One sample under several explanations; `titles` and `readings` go together."""

    titles: tuple[str, ...]
    readings: tuple[Reading, ...]

    @property
    def rows(self) -> list[tuple[Panel, ...]]:
        """Per stream, its panel in every reading."""
        return [
            tuple(_named(reading, panel.name) for reading in self.readings)
            for panel in self.readings[0].panels
        ]

    @property
    def scales(self) -> str:
        """What colours mean across methods, and across streams where there are several."""
        return OWN_SCALES + ACROSS * (len(self.rows) > 1)

    @property
    def sums(self) -> list[tuple[str, str]]:
        """(titles, sentence) of what the scores add up to, the same sentence said once."""
        said: dict[str, list[str]] = {}
        for title, reading in zip(self.titles, self.readings, strict=True):
            said.setdefault(reading.accounted, []).append(title)
        return [(", ".join(titles), sentence) for sentence, titles in said.items()]


def compare(attributions: Sequence[Attribution]) -> list[Comparison]:
    """One comparison per sample; an error where the attributions are not of the same input."""
    if not attributions:
        raise InputError("there is nothing to compare: give at least one attribution")
    columns = [read(attribution) for attribution in attributions]
    first = columns[0]
    for attribution, column in zip(attributions, columns, strict=True):
        if [_input(r) for r in column] != [_input(r) for r in first]:
            raise InputError(
                f"a comparison needs the same input everywhere, but '{attribution.method}' was"
                f" given {_told(column)} and '{attributions[0].method}' {_told(first)}"
            )
    titles = _titles(attributions)
    return [Comparison(titles, tuple(sample)) for sample in zip(*columns, strict=True)]


def _named(reading: Reading, name: str) -> Panel:
    return next(panel for panel in reading.panels if panel.name == name)


def _input(reading: Reading) -> list[tuple[str, object]]:
    """What identifies the input: the words of its texts and the grids of its images."""
    return sorted(
        (
            panel.name,
            tuple(word.text for word in panel.words)
            if isinstance(panel, TextPanel)
            else tuple(panel.patches.shape),
        )
        for panel in reading.panels
    )


def _told(column: Sequence[Reading]) -> str:
    parts = [
        f"{panel.name} of {panel.patches.shape[0]} x {panel.patches.shape[1]} patches"
        if isinstance(panel, ImagePanel)
        else f"{panel.name} of {len(panel.words)} words"
        for panel in column[0].panels
    ]
    return f"{len(column)} sample(s), the first with {' and '.join(parts)}"


def _titles(attributions: Sequence[Attribution]) -> tuple[str, ...]:
    """A name per column: the method, and whatever else tells the columns apart."""
    keys = sorted({key for a in attributions for key in a.options})
    several = len({a.labels for a in attributions}) > 1
    titles = []
    for attribution in attributions:
        namesakes = [a for a in attributions if a.method == attribution.method]
        apart = [
            f"{key}={attribution.options.get(key)}"
            for key in keys
            if len({repr(a.options.get(key)) for a in namesakes}) > 1
        ]
        why = [visible(attribution.labels[0])] if several and len(attribution) == 1 else []
        titles.append(", ".join([attribution.method, *apart, *why]))
    return tuple(titles)
