"""Several attributions of one input in the terminal, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from whyformer.render.comparison import ComparedSample
from whyformer.render.numbers import number
from whyformer.render.overlay import overlay_row
from whyformer.render.panels import ImagePanel, TextPanel, Word
from whyformer.render.terminal.bars import bar, bar_length, word_name
from whyformer.render.terminal.ink_box import InkBox
from whyformer.render.terminal.mosaic import half_blocks, tenths
from whyformer.render.view_model import SampleContent

COLUMN = 9  # characters of a column of scores
BAR = 6  # characters of its bar, on one side of zero
VERDICTS = {"sound": "green", "sound with notes": "yellow", "doubtful": "bold red"}
PICTURE, OVERLAY = 32, 18  # characters of the widest picture, and of the narrowest overlay


def headline(*labels: str) -> Text:
    """Return the headline of a sample: why this label, or one of several?"""
    return Text("why ") + Text(" or ").join(Text(label, style="bold") for label in labels) + "?"


def captioned_row(captioned: Sequence[tuple[str, Text]], wide: int) -> Table:
    """Return pictures side by side, with their captions above."""
    table = Table.grid(padding=(0, 2))
    for _ in captioned:
        table.add_column(width=wide, overflow="fold", vertical="bottom")
    table.add_row(*(Text(caption) for caption, _ in captioned))
    table.add_row(*(text for _, text in captioned))
    return table


def side_by_side(box: InkBox, sample: ComparedSample, bars: bool) -> RenderableType:
    """Return one sample: words down and attributions across, or a row of overlays.

    Columns that do not fit the width wrap.
    """
    first = sample.contents[0]
    one = len({(content.label, content.model) for content in sample.contents}) == 1
    known = {
        "output": number(first.output) if one else "",
        "probability": sample.chances,
        "models" if ", " in sample.models else "model": sample.models,
    }
    facts = "  ".join(f"{name} {value}" for name, value in known.items() if value)
    parts: list[RenderableType] = [Rule(headline(*sample.labels), align="left", style="")]
    parts += [Text(facts)] if facts else []
    for panels in sample.rows:
        if len(sample.rows) > 1:
            parts.append(Text(panels[0].name, style="bold underline"))
        texts = [p for p in panels if isinstance(p, TextPanel)]
        images = [p for p in panels if isinstance(p, ImagePanel)]
        if texts:
            parts += [
                Padding(_word_table(box, sample.titles[some], texts[some], bars), (1, 0))
                for some in _fitting(box, sample.titles, texts, bars)
            ]
        else:
            parts.append(_overlays(box, sample.titles, images))
    lines = [Text(f"{titles}: ") + trust_line(content) for titles, content in sample.trusts]
    return Group(*parts, Text(sample.scales + "\n"), *lines, Text())


def trust_line(content: SampleContent) -> Text:
    """Return how far to trust the scores, the verdict in its colour."""
    head = Text(f"{content.head} " * bool(content.head), style=VERDICTS.get(content.verdict, ""))
    return Text.assemble(head, content.reasons)


def _word_table(
    box: InkBox, titles: Sequence[str], panels: Sequence[TextPanel], bars: bool
) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="bold", pad_edge=False)
    table.add_column("", overflow="fold")
    for title in titles:
        table.add_column(Text(title), justify="left" if bars else "right", overflow="fold")
    for words in zip(*(panel.words for panel in panels), strict=True):
        cells = [_cell(box, panel, word, bars) for panel, word in zip(panels, words, strict=True)]
        table.add_row(word_name(words[0]), *cells)
    return table


def _cell(box: InkBox, panel: TextPanel, word: Word, bars: bool) -> Text:
    """A score on its colour, or with its bar."""
    score = f" {number(word.score, panel.span)} "
    if not bars:
        return Text(score, style=box.style(panel.share(word)))
    return Text(score.rjust(COLUMN)) + bar(box, bar_length(panel, word), BAR, BAR * panel.signed)


def _fitting(
    box: InkBox, titles: Sequence[str], panels: Sequence[TextPanel], bars: bool
) -> Iterator[slice]:
    """Slices of columns that fit the width."""
    longest = max(cell_len(word.text) for word in panels[0].words)
    room = box.width - min(box.width // 3, longest) - 1
    start, used = 0, 0
    for i, (title, panel) in enumerate(zip(titles, panels, strict=True)):
        score = COLUMN + (1 + BAR * (1 + panel.signed)) * bars
        wide = max(score, min(cell_len(title), 2 * COLUMN)) + 2
        if i > start and used + wide > room:
            yield slice(start, i)
            start, used = i, 0
        used += wide
    yield slice(start, len(titles))


def _overlays(box: InkBox, titles: Sequence[str], panels: Sequence[ImagePanel]) -> RenderableType:
    """Overlays in colour, or digits without colour, as many per line as fit."""
    least = OVERLAY if box.theme else PICTURE
    shown = overlay_row(titles, panels) if box.theme else []
    per_line = max(1, min(len(shown) or len(panels), box.width // (least + 2)))
    wide = min(PICTURE, box.width // per_line - 2)
    drawn = [(title, half_blocks(picture, wide)) for title, picture in shown] or [
        (title, tenths(panel.shares, wide)) for title, panel in zip(titles, panels, strict=True)
    ]
    lines = (drawn[i : i + per_line] for i in range(0, len(drawn), per_line))
    return Group(*(Padding(captioned_row(line, wide), (1, 0, 0, 0)) for line in lines), Text())
