"""Several attributions of the same input, lined up sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from whyformer.attribution import Attribution
from whyformer.errors import InputError, OptionError
from whyformer.render.panels import ImagePanel, Panel, TextPanel
from whyformer.render.signs import visible
from whyformer.render.view_model import SampleContent, read_samples

OWN, SHARED = "own", "shared"  # the choices of `scale`
OWN_SCALES = (
    "Each {one} has its own colour scale, set by its strongest word or patch: compare order and"
    " sign, not size."
)
SHARED_SCALE = (
    "All share one colour scale: these scores sum to the output, so their sizes can be compared."
)
SHARED_IN_PART = (
    "All share one colour scale. Not all of these scores sum to their output: compare sizes with"
    " care."
)
EXACT = 0.01  # how far scores and sinks may be from the output, as a share, to sum to it
ACROSS = " Methods that conserve relevance have one scale for all streams, others one per stream."


@dataclass(frozen=True)
class ComparedSample:
    """One sample, explained several times: one title and one content per attribution."""

    titles: tuple[str, ...]
    contents: tuple[SampleContent, ...]
    alike: bool = False  # whether they differ only by their target
    has_names: bool = False  # whether the user named the attributions
    scale: str = OWN  # whether each has its own colour scale, or all share one

    @property
    def rows(self) -> list[tuple[Panel, ...]]:
        """For each stream, its panel in every content."""
        return [
            tuple(_panel_of(content, panel.name) for content in self.contents)
            for panel in self.contents[0].panels
        ]

    @property
    def scales(self) -> str:
        """How colours compare across attributions and streams, as a note."""
        if self.scale == SHARED:
            shares = [content.share for content in self.contents]
            exact = all(share is not None and abs(share - 1) < EXACT for share in shares)
            return SHARED_SCALE if exact else SHARED_IN_PART
        one = "target" if self.alike else "method" if len(self.labels) == 1 else "column"
        return OWN_SCALES.format(one=one) + ACROSS * (len(self.rows) > 1)

    @property
    def labels(self) -> tuple[str, ...]:
        """The distinct labels."""
        return tuple(dict.fromkeys(content.label for content in self.contents))

    @property
    def models(self) -> str:
        """The distinct models."""
        return ", ".join(dict.fromkeys(content.model for content in self.contents if content.model))

    @property
    def chances(self) -> str:
        """The probability of each label, with its model if there are several; "" if unknown."""
        named = len({content.model for content in self.contents}) > 1
        labelled = named or len(self.labels) > 1
        found = [
            f"{f'{c.model}: ' * named}{f'{c.label} ' * labelled}{c.chance}"
            for c in self.contents
            if c.chance
        ]
        return ", ".join(dict.fromkeys(found))

    @property
    def methods(self) -> str:
        """The distinct methods."""
        return ", ".join(dict.fromkeys(content.method for content in self.contents))

    @property
    def choices(self) -> tuple[str, ...]:
        """Short names of the contents: their labels if only these differ, else their titles."""
        apart = self.alike and not self.has_names and len(self.labels) == len(self.contents)
        return self.labels if apart else self.titles

    @property
    def trusts(self) -> list[tuple[str, SampleContent]]:
        """(titles, content) of how far to trust the scores; titles with equal lines are merged."""
        merged: dict[str, tuple[list[str], SampleContent]] = {}
        for title, content in zip(self.choices, self.contents, strict=True):
            merged.setdefault(content.trust, ([], content))[0].append(title)
        mark = "; " if any(", " in title for title in self.choices) else ", "
        return [(mark.join(titles), content) for titles, content in merged.values()]


def compare_samples(
    attributions: Sequence[Attribution] | Mapping[str, Attribution], scale: str = OWN
) -> list[ComparedSample]:
    """Return one comparison per sample.

    Args:
        attributions: Attributions of the same input. A mapping names them; otherwise the names
            are made of the methods, and of the options and targets that differ.
        scale: "own" colours each attribution by its own strongest word or patch, "shared" all of
            them by the strongest of all.

    Raises:
        InputError: If there are no attributions, or their inputs differ.
        OptionError: If `scale` is unknown, or "shared" and some scores do not sum to the output.
    """
    compared = list(attributions.values() if isinstance(attributions, Mapping) else attributions)
    if not compared:
        raise InputError(
            "there is nothing to compare",
            argument="attributions",
            remedy="Pass at least one attribution",
        )
    check_scale(scale, [a.method for a in compared if a.conservation is None])
    columns = [read_samples(attribution) for attribution in compared]
    first = columns[0]
    for attribution, column in zip(compared, columns, strict=True):
        if [_input(r) for r in column] != [_input(r) for r in first]:
            raise InputError(
                f"the attributions explain different inputs: '{attribution.method}' has"
                f" {_describe_input(column)} and '{compared[0].method}' has"
                f" {_describe_input(first)}",
                argument="attributions",
                remedy="Compare attributions of the same input",
            )
    if isinstance(attributions, Mapping):
        has_names, titles = True, tuple(map(visible, attributions))
    else:
        has_names, titles = False, _titles(compared)
    alike = len(compared) > 1 and len({_configuration(a) for a in compared}) == 1
    return [
        ComparedSample(
            titles,
            _share_scales(sample) if scale == SHARED else sample,
            alike,
            has_names,
            scale,
        )
        for sample in zip(*columns, strict=True)
    ]


def same_inputs(attributions: Sequence[Attribution]) -> bool:
    """Return whether all attributions have the same words and patches, as a comparison needs."""
    columns = [read_samples(attribution) for attribution in attributions]
    first = [_input(content) for content in columns[0]]
    return all([_input(content) for content in column] == first for column in columns)


def check_scale(scale: str, without_sum: Sequence[str]) -> None:
    """Raise OptionError if `scale` is unknown or does not fit the methods.

    Args:
        scale: "own" or "shared".
        without_sum: The compared methods whose scores do not sum to the output.
    """
    if scale not in (OWN, SHARED):
        raise OptionError(
            f"scale={scale!r} is unknown",
            argument="scale",
            remedy=f"Use '{OWN}' or '{SHARED}'",
        )
    if scale == SHARED and without_sum:
        raise OptionError(
            f"scale='{SHARED}' compares sizes, and the scores of '{without_sum[0]}' do not sum to"
            " the output: their sizes mean nothing across targets or methods",
            argument="scale",
            remedy=f"Use scale='{OWN}', or a method that conserves, such as 'libragrad'",
        )


def _configuration(attribution: Attribution) -> tuple[str, str, str]:
    """Method, options and model. If these are equal, attributions differ by their target."""
    options = repr(sorted(attribution.options.items()))
    return attribution.method, options, str(attribution.provenance.get("model"))


def _share_scales(contents: tuple[SampleContent, ...]) -> tuple[SampleContent, ...]:
    """The contents with one colour scale per stream, set by the strongest score of all."""
    spans: dict[str, float] = {}
    signed: dict[str, bool] = {}
    for panel in (panel for content in contents for panel in content.panels):
        # A panel without any score has a placeholder span, which must not set the scale.
        spans[panel.name] = max(spans.get(panel.name, 0.0), 0.0 if panel.silent else panel.span)
        signed[panel.name] = signed.get(panel.name, False) or panel.signed

    def with_shared_scale(panel: Panel) -> Panel:
        span = spans[panel.name] or panel.span
        full_at = f"{panel.full_at} of all"
        return replace(panel, span=span, signed=signed[panel.name], full_at=full_at)

    return tuple(replace(r, panels=tuple(map(with_shared_scale, r.panels))) for r in contents)


def _panel_of(content: SampleContent, name: str) -> Panel:
    return next(panel for panel in content.panels if panel.name == name)


def _input(content: SampleContent) -> list[tuple[str, object]]:
    """What identifies an input: the words of its texts and the grids of its images."""
    return sorted(
        (
            panel.name,
            tuple(word.text for word in panel.words)
            if isinstance(panel, TextPanel)
            else tuple(panel.patches.shape),
        )
        for panel in content.panels
    )


def _describe_input(column: Sequence[SampleContent]) -> str:
    parts = [
        f"{panel.name} of {panel.patches.shape[0]} x {panel.patches.shape[1]} patches"
        if isinstance(panel, ImagePanel)
        else f"{panel.name} of {len(panel.words)} words"
        for panel in column[0].panels
    ]
    return f"{len(column)} sample(s), the first with {' and '.join(parts)}"


def _titles(attributions: Sequence[Attribution]) -> tuple[str, ...]:
    """A name per attribution: the method, and the models, options and labels that differ."""
    keys = sorted({key for a in attributions for key in a.options})
    several = len({a.labels for a in attributions}) > 1
    models = [visible(str(a.provenance.get("model") or "")) for a in attributions]
    apart_by_model = len(set(models)) > 1
    titles = []
    for attribution, model in zip(attributions, models, strict=True):
        namesakes = [a for a in attributions if a.method == attribution.method]
        apart = [
            f"{key}={attribution.options.get(key)}"
            for key in keys
            if len({repr(a.options.get(key)) for a in namesakes}) > 1
        ]
        why = [visible(attribution.labels[0])] if several and len(attribution) == 1 else []
        name = [model] * apart_by_model + [visible(attribution.method), *map(visible, apart), *why]
        titles.append(", ".join(name))
    return tuple(titles)
