"""Attributions as rich text: coloured words, pictures in half blocks, numbers without colour."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from whyformer.attribution import Attribution
from whyformer.render.colours import BROKEN, LIGHT, STEPS, WHITE, css
from whyformer.render.comparison import OWN, compare_samples
from whyformer.render.numbers import number
from whyformer.render.overlay import panel_pictures
from whyformer.render.panels import SILENT, ImagePanel, Panel, TextPanel, Word
from whyformer.render.relevance_matrix import RelevanceMatrix
from whyformer.render.sentences import ends_line
from whyformer.render.subwords import as_subwords
from whyformer.render.terminal.bars import strongest_bars, word_bars
from whyformer.render.terminal.ink_box import ForConsole, InkBox, keep_left_to_right
from whyformer.render.terminal.mosaic import half_blocks, tenths
from whyformer.render.terminal.side_by_side import (
    PICTURE,
    captioned_row,
    headline,
    side_by_side,
    trust_line,
)
from whyformer.render.view_model import SampleContent, read_samples

TOP = 6  # rows of the list of strongest words or patches
CELL = 7  # characters of a cell of output by input
ROWS = 60  # of output by input, at most
BROKEN_STYLE = Style(color=css(WHITE), bgcolor=css(BROKEN))
NOTABLE = 0.1  # without colour, words get their number from this share on


def sample_text(
    attribution: Attribution, *, bars: bool = False, subwords: bool = False
) -> RenderableType:
    """Return what a rich console prints, in the colours that the console has.

    Args:
        attribution: Its samples are shown below each other.
        bars: Add a bar to every word.
        subwords: Show the tokens of each word.
    """
    contents = read_samples(as_subwords(attribution) if subwords else attribution)
    return ForConsole(lambda box: [_sample(box, content, bars) for content in contents])


def comparison_text(
    attributions: Sequence[Attribution],
    *,
    bars: bool = False,
    subwords: bool = False,
    scale: str = OWN,
) -> RenderableType:
    """Return the same for several attributions of one input, side by side."""
    shown = [as_subwords(a) for a in attributions] if subwords else attributions
    samples = compare_samples(shown, scale)
    return ForConsole(lambda box: [side_by_side(box, sample, bars) for sample in samples])


def print_to_text(renderable: RenderableType, width: int | None) -> str:
    """Return what a terminal with 24-bit colour would receive."""
    console = Console(
        file=StringIO(), force_terminal=True, color_system="truecolor", width=width, highlight=False
    )
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


# -- one attribution -------------------------------------------------------------------------


def _sample(box: InkBox, content: SampleContent, bars: bool) -> RenderableType:
    parts: list[RenderableType] = [
        Rule(headline(content.label), align="left", style=""),
        _facts(content),
    ]
    for panel in content.panels:
        if content.scales:
            parts.append(Text(f"{panel.name}", style="bold underline"))
        parts.append(_panel(box, panel, bool(content.scales), bars))
    if content.answer is not None and content.answer.output_words:
        parts += [Text("output", style="bold underline"), Padding(_answer(content.answer), (1, 0))]
    parts += [_matrix(box, matrix) for matrix in content.generated]
    parts += [Text(note) for note in (content.scales, *content.notes) if note]
    parts.append(_accounts(content))
    return Group(*parts)


def _facts(content: SampleContent) -> Text:
    chance = [f"probability {content.chance}"] if content.chance else []
    facts = [f"output {number(content.output)}", *chance, f"method {content.method}"]
    return Text("  ".join(facts + ([f"model {content.model}"] if content.model else [])))


def _accounts(content: SampleContent) -> Text:
    text = trust_line(content)
    if content.totals:
        text.append("  (" + ", ".join(f"{n} {number(v)}" for n, v in content.totals) + ")")
    return text.append("\n")


def _panel(box: InkBox, panel: Panel, several: bool, bars: bool) -> RenderableType:
    shown = _line(box, panel) if isinstance(panel, TextPanel) else _pictures(box, panel)
    note = [Text(panel.note)] if panel.note else []
    if several and panel.silent:
        return Group(Padding(shown, (1, 0)), Text(SILENT + "\n"))
    listed = Padding(_bars(box, panel, bars), (1, 0))
    return Group(Padding(shown, (1, 0)), _legend(box, panel), *note, listed)


def _line(box: InkBox, panel: TextPanel) -> Text:
    """The words in their colours; the roles of a chat stand on their own lines."""
    lines = []
    for role, words in panel.turns:
        shown = _run([_word(box, panel, word) for word in words], [word.text for word in words])
        lines.append(Text(f"{role}\n", style="dim").append_text(shown) if role else shown)
    return Text("\n").join(lines)


def _answer(panel: TextPanel) -> Text:
    """What the model wrote; words of which it was not sure are underlined."""
    words = [
        Text(word.text, style=Style(italic=word.special, underline=word.unsure or None))
        for word in panel.answer
    ]
    return _run(words, [word.text for word in panel.answer])


def _word(box: InkBox, panel: TextPanel, word: Word) -> Text:
    share = panel.share(word)
    style = Style(italic=word.special, underline=word.unsure or None)
    ground = BROKEN_STYLE if word.broken and box.theme is not None else box.style(share)
    text = Text(word.text, style=ground + style)
    if word.broken or (box.theme is None and abs(share) >= NOTABLE):
        text.append(f"({number(word.score, panel.span)})")
    return text


def _run(words: Sequence[Text], names: Sequence[str]) -> Text:
    """The words with spaces between them, and a new line after a newline."""
    run = Text()
    for place, (word, name) in enumerate(zip(words, names, strict=True)):
        run.append_text(word)
        if place + 1 < len(words):
            run.append("\n" if ends_line(name) else " ")
    return run


def _legend(box: InkBox, panel: Panel) -> Text:
    low = -STEPS if panel.signed else 0
    ends = (
        f"{number(-panel.span)} against " if panel.signed else "0 ",
        f" for {number(panel.span)}",
    )
    if box.theme is None:
        return Text(f"scale: {ends[0]}..{ends[1]}")
    theme = (
        LIGHT if isinstance(panel, ImagePanel) else box.theme
    )  # pictures look the same on every background
    scale = Text(ends[0])
    for whole in range(low, STEPS + 1, 2):
        scale.append(" ", style=Style(bgcolor=css(theme.colour(whole / STEPS))))
    return scale.append(ends[1])


def _bars(box: InkBox, panel: Panel, every: bool) -> Table:
    """Bars for every word, or for the strongest words or patches."""
    if every and isinstance(panel, TextPanel):
        return word_bars(box, panel)
    return strongest_bars(box, panel, TOP)


# -- output by input -------------------------------------------------------------------------


def _matrix(box: InkBox, matrix: RelevanceMatrix) -> RenderableType:
    """Output words down and input words across, as many as fit, scores on their colour."""
    first = min(box.width // 3, max((cell_len(row.text) for row in matrix.rows), default=0))
    wide = max(CELL, len(number(-matrix.span, matrix.span)))
    most = max(1, (box.width - first - 1) // (wide + 1))
    cut = matrix.cut(ROWS, most)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="")
    table.add_column("", width=first, no_wrap=True, overflow="ellipsis")
    for column in cut.columns:
        head = Text(column.text, style="italic" if column.special else "")
        table.add_column(head, width=wide, justify="right", no_wrap=True, overflow="ellipsis")
    for row, values, shares in zip(cut.rows, cut.values.tolist(), cut.shares.tolist(), strict=True):
        cells = [
            Text(number(value, cut.span).rjust(wide), style=box.style(share))
            for value, share in zip(values, shares, strict=True)
        ]
        table.add_row(
            Text(keep_left_to_right(row.text), style="italic" if row.special else ""), *cells
        )
    title = Text(f"output by {cut.answering}", style="bold underline")
    left_out = [Text(f"only {cut.left_out}")] if cut.left_out else []
    return Group(title, Padding(table, (1, 0)), *left_out)


# -- images ----------------------------------------------------------------------------------


def _pictures(box: InkBox, panel: ImagePanel) -> RenderableType:
    if box.theme is None:
        return tenths(panel.shares, box.width)
    shown = panel_pictures(panel)
    wide = max(4, min(PICTURE, (box.width - 2 * len(shown)) // len(shown)))
    return captioned_row(
        [(caption, half_blocks(picture, wide)) for caption, picture in shown], wide
    )
