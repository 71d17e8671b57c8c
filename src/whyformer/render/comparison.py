"""Several attributions of one input, checked to be that and lined up sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.render.panels import ImagePanel, Panel, TextPanel, visible
from whyformer.render.view_model import SampleContent, read_samples

OWN_SCALES = (
    "Each method has its own scale, full at its strongest word or patch: compare order and sign,"
    " not size."
)
ONE_SCALE = (
    "All of these were made in the same way, so that they share one scale for each stream: compare"
    " size, too."
)
ACROSS = (
    " A method whose scores add up has one scale for all streams; any other has one for each"
    " stream."
)


@dataclass(frozen=True)
class ComparedSample:
    """One sample under several explanations; `titles` and `contents` go together."""

    titles: tuple[str, ...]
    contents: tuple[SampleContent, ...]
    alike: bool = False  # whether they differ by what was explained, and in nothing else
    named: bool = False  # whether the titles are the user's own

    @property
    def rows(self) -> list[tuple[Panel, ...]]:
        """Per stream, its panel in every content."""
        return [
            tuple(_named(content, panel.name) for content in self.contents)
            for panel in self.contents[0].panels
        ]

    @property
    def scales(self) -> str:
        """What colours mean across methods, and across streams where there are several."""
        return ONE_SCALE if self.alike else OWN_SCALES + ACROSS * (len(self.rows) > 1)

    @property
    def labels(self) -> tuple[str, ...]:
        """What was explained, each once."""
        return tuple(dict.fromkeys(content.label for content in self.contents))

    @property
    def methods(self) -> str:
        """How they were made, each way once."""
        return ", ".join(dict.fromkeys(content.method for content in self.contents))

    @property
    def choices(self) -> tuple[str, ...]:
        """What tells the contents apart where the rest is said elsewhere: titles, or labels."""
        apart = self.alike and not self.named and len(self.labels) == len(self.contents)
        return self.labels if apart else self.titles

    @property
    def sums(self) -> list[tuple[str, str]]:
        """(titles, sentence) of what the scores add up to, the same sentence said once."""
        said: dict[str, list[str]] = {}
        for title, content in zip(self.choices, self.contents, strict=True):
            said.setdefault(content.sum_note, []).append(title)
        return [(", ".join(titles), sentence) for sentence, titles in said.items()]


def compare_samples(
    given: Sequence[Attribution] | Mapping[str, Attribution],
) -> list[ComparedSample]:
    """One comparison per sample; an error where the attributions are not of the same input.

    A mapping gives the titles; without them, method, options and target tell the columns apart.
    """
    attributions = list(given.values()) if isinstance(given, Mapping) else list(given)
    if not attributions:
        raise InputError("there is nothing to compare: give at least one attribution")
    columns = [read_samples(attribution) for attribution in attributions]
    first = columns[0]
    for attribution, column in zip(attributions, columns, strict=True):
        if [_input(r) for r in column] != [_input(r) for r in first]:
            raise InputError(
                f"a comparison needs the same input everywhere, but '{attribution.method}' was"
                f" given {_told(column)} and '{attributions[0].method}' {_told(first)}"
            )
    named = isinstance(given, Mapping)
    titles = tuple(map(visible, given)) if isinstance(given, Mapping) else _titles(attributions)
    alike = len(attributions) > 1 and len({_way(a) for a in attributions}) == 1
    return [
        ComparedSample(titles, _scaled(sample) if alike else sample, alike, named)
        for sample in zip(*columns, strict=True)
    ]


def _way(attribution: Attribution) -> tuple[str, str, str]:
    """How an attribution was made; two of the same way have scores in the same unit."""
    options = repr(sorted(attribution.options.items()))
    return attribution.method, options, str(attribution.provenance.get("model"))


def _scaled(contents: tuple[SampleContent, ...]) -> tuple[SampleContent, ...]:
    """The contents with one scale for each stream, full at the strongest in any of them."""
    spans: dict[str, float] = {}
    signed: dict[str, bool] = {}
    for panel in (panel for content in contents for panel in content.panels):
        # The span of a panel without any score is a stand-in, and no measure for the others.
        spans[panel.name] = max(spans.get(panel.name, 0.0), 0.0 if panel.silent else panel.span)
        signed[panel.name] = signed.get(panel.name, False) or panel.signed

    def shared(panel: Panel) -> Panel:
        span = spans[panel.name] or panel.span
        full_at = f"{panel.full_at} of all"
        return replace(panel, span=span, signed=signed[panel.name], full_at=full_at)

    return tuple(replace(r, panels=tuple(map(shared, r.panels))) for r in contents)


def _named(content: SampleContent, name: str) -> Panel:
    return next(panel for panel in content.panels if panel.name == name)


def _input(content: SampleContent) -> list[tuple[str, object]]:
    """What identifies the input: the words of its texts and the grids of its images."""
    return sorted(
        (
            panel.name,
            tuple(word.text for word in panel.words)
            if isinstance(panel, TextPanel)
            else tuple(panel.patches.shape),
        )
        for panel in content.panels
    )


def _told(column: Sequence[SampleContent]) -> str:
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
        titles.append(", ".join([visible(attribution.method), *map(visible, apart), *why]))
    return tuple(titles)
