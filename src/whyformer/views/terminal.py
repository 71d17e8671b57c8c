"""The terminal: words on coloured ground, pictures in half blocks, numbers where colour is not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from whyformer.attribution import Attribution, views
from whyformer.views.between import Matrix
from whyformer.views.colour import DARK, EITHER, LIGHT, STEPS, Theme, css, ink, step
from whyformer.views.comparison import Comparison, compare
from whyformer.views.mosaic import half_blocks, tenths
from whyformer.views.overlay import beside, pictures
from whyformer.views.reading import (
    SILENT,
    ImagePanel,
    Panel,
    Reading,
    TextPanel,
    Word,
    number,
    read,
    strongest,
)

TOP = 6  # rows of the list of strongest words or patches
COLUMN = 9  # characters of a column of scores
BAR = 20  # characters of the longest bar
CELL = 7  # characters of a cell of output by input
ROWS = 60  # of output by input, at most
PICTURE = 32  # characters of the widest picture
NOTABLE = 0.1  # share from which a word gets its number where there is no colour
POOR = (None, "standard", "windows")  # colour systems with too few colours for a scale


class Terminal:
    """Text with 24-bit colours, each with its own ground and ink; numbers without colour."""

    name = "terminal"
    title = "coloured text for a terminal"

    def render(self, attribution: Attribution, width: int | None = None) -> str:
        """The coloured text; NO_COLOR in the environment is respected."""
        return _printed(self.renderable(attribution), width)

    def render_comparison(
        self, attributions: Sequence[Attribution], width: int | None = None
    ) -> str:
        """Words down and attributions across, or a row of overlays."""
        return _printed(self.comparison(attributions), width)

    def renderable(self, attribution: Attribution) -> RenderableType:
        """What a rich console prints, in as much colour as that console has."""
        readings = read(attribution)
        return _ForConsole(lambda ink_box: [_sample(ink_box, r) for r in readings])

    def comparison(self, attributions: Sequence[Attribution]) -> RenderableType:
        """The same for several attributions of one input."""
        samples = compare(attributions)
        return _ForConsole(lambda ink_box: [_compared(ink_box, s) for s in samples])


@dataclass(frozen=True)
class _InkBox:
    """What the console at hand can do."""

    theme: Theme | None  # None: no colour
    width: int

    def style(self, share: float) -> Style:
        """Ground and ink of a place on the scale; what says nothing is left as it is."""
        whole = step(share)
        if self.theme is None or abs(whole) < 2:
            return Style.null()
        ground = self.theme.colour(whole / STEPS)
        return Style(color=css(ink(ground)), bgcolor=css(ground))


@dataclass(frozen=True)
class _ForConsole:
    """Decides about colour when it is printed, because only the console knows."""

    blocks: Callable[[_InkBox], list[RenderableType]]

    def __rich_console__(self, console: Console, options: object) -> Iterator[RenderableType]:
        poor = console.no_color or console.color_system in POOR
        yield from self.blocks(_InkBox(None if poor else _theme(), console.width))


def _theme() -> Theme:
    """The theme of the terminal where it tells its background (COLORFGBG), else one for any."""
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return {"": EITHER, "7": LIGHT, "15": LIGHT}.get(ground, DARK)


def _printed(renderable: RenderableType, width: int | None) -> str:
    console = Console(
        file=StringIO(), force_terminal=True, color_system="truecolor", width=width, highlight=False
    )
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


# -- one attribution -------------------------------------------------------------------------


def _sample(box: _InkBox, reading: Reading) -> RenderableType:
    parts: list[RenderableType] = [
        Rule(_headline(reading), align="left", style=""),
        _facts(reading),
    ]
    for panel in reading.panels:
        if reading.scales:
            parts.append(Text(f"{panel.name}", style="bold underline"))
        parts.append(_panel(box, panel, bool(reading.scales)))
    parts += [_matrix(box, matrix) for matrix in reading.generated]
    parts += [Text(note) for note in (reading.scales, *reading.notes) if note]
    parts.append(_accounts(reading))
    return Group(*parts)


def _headline(reading: Reading) -> Text:
    return Text.assemble("why ", (reading.label, "bold"), "?")


def _facts(reading: Reading) -> Text:
    facts = [f"output {number(reading.output)}", f"method {reading.method}"]
    return Text("  ".join(facts + ([f"model {reading.model}"] if reading.model else [])))


def _accounts(reading: Reading) -> Text:
    text = Text(reading.accounted)
    if reading.held:
        text.append("  (" + ", ".join(f"{n} {number(v)}" for n, v in reading.held) + ")")
    return text.append("\n")


def _panel(box: _InkBox, panel: Panel, several: bool) -> RenderableType:
    shown = _line(box, panel) if isinstance(panel, TextPanel) else _pictures(box, panel)
    note = [Text(panel.note)] if isinstance(panel, TextPanel) and panel.note else []
    if several and panel.silent:
        return Group(Padding(shown, (1, 0)), Text(SILENT + "\n"))
    bars = _bars(box, f"strongest {panel.unit}", panel)
    return Group(Padding(shown, (1, 0)), _legend(box, panel), *note, Padding(bars, (1, 0)))


def _line(box: _InkBox, panel: TextPanel) -> Text:
    words = []
    for word in panel.words:
        share = panel.share(word)
        text = Text(word.text, style=box.style(share) + Style(italic=word.special))
        if box.theme is None and abs(share) >= NOTABLE:
            text.append(f"({number(word.score, panel.span)})")
        words.append(text)
    return Text(" ").join(words)


def _legend(box: _InkBox, panel: Panel) -> Text:
    low = -STEPS if panel.signed else 0
    ends = (
        f"{number(-panel.span)} against " if panel.signed else "0 ",
        f" for {number(panel.span)}",
    )
    if box.theme is None:
        return Text(f"scale: {ends[0]}..{ends[1]}")
    theme = LIGHT if isinstance(panel, ImagePanel) else box.theme  # pictures are the same on both
    scale = Text(ends[0])
    for whole in range(low, STEPS + 1, 2):
        scale.append(" ", style=Style(bgcolor=css(theme.colour(whole / STEPS))))
    return scale.append(ends[1])


def _bars(box: _InkBox, head: str, panel: Panel) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column(head, max_width=max(12, box.width - BAR - 16), overflow="fold")
    table.add_column("score", justify="right")
    table.add_column()
    for row in strongest(panel.rows, TOP):
        length = max(1, round(abs(row.length) * BAR)) if row.length else 0
        end = box.theme.warm if box.theme and row.length > 0 else box.theme and box.theme.cool
        style = Style(color=css(end)) if end else Style.null()
        table.add_row(Text(row.name), number(row.score, panel.span), Text("━" * length, style))
    return table


# -- output by input -------------------------------------------------------------------------


def _matrix(box: _InkBox, matrix: Matrix) -> RenderableType:
    """Output words down and input words across, as many as fit, scores on coloured ground."""
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
        table.add_row(Text(row.text, style="italic" if row.special else ""), *cells)
    title = Text(f"output by {cut.answering}", style="bold underline")
    left_out = [Text(f"shown are {cut.left_out}")] if cut.left_out else []
    return Group(title, Padding(table, (1, 0)), *left_out)


# -- images ----------------------------------------------------------------------------------


def _pictures(box: _InkBox, panel: ImagePanel) -> RenderableType:
    if box.theme is None:
        return tenths(panel.shares, box.width)
    shown = pictures(panel)
    wide = max(4, min(PICTURE, (box.width - 2 * len(shown)) // len(shown)))
    return _row([(caption, half_blocks(picture, wide)) for caption, picture in shown], wide)


def _row(captioned: Sequence[tuple[str, Text]], wide: int) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in captioned:
        table.add_column(width=wide, overflow="fold", vertical="bottom")
    table.add_row(*(Text(caption) for caption, _ in captioned))
    table.add_row(*(text for _, text in captioned))
    return table


# -- several attributions --------------------------------------------------------------------


def _compared(box: _InkBox, sample: Comparison) -> RenderableType:
    first = sample.readings[0]
    parts: list[RenderableType] = [
        Rule(_headline(first), align="left", style=""),
        Text(f"output {number(first.output)}" + (f"  model {first.model}" * bool(first.model))),
    ]
    for panels in sample.rows:
        if len(sample.rows) > 1:
            parts.append(Text(panels[0].name, style="bold underline"))
        texts = [p for p in panels if isinstance(p, TextPanel)]
        images = [p for p in panels if isinstance(p, ImagePanel)]
        if texts:
            parts += [
                Padding(_word_table(box, sample.titles[some], texts[some]), (1, 0))
                for some in _fitting(box, sample.titles, texts[0])
            ]
        else:
            parts.append(_overlays(box, sample.titles, images))
    sums = [Text(f"{titles}: {sentence}") for titles, sentence in sample.sums]
    return Group(*parts, Text(sample.scales + "\n"), *sums, Text())


def _word_table(box: _InkBox, titles: Sequence[str], panels: Sequence[TextPanel]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="bold", pad_edge=False)
    table.add_column("", overflow="fold")
    for title in titles:
        table.add_column(title, justify="right", overflow="fold")
    for words in zip(*(panel.words for panel in panels), strict=True):
        cells = [
            Text(f" {number(word.score, panel.span)} ", style=box.style(panel.share(word)))
            for panel, word in zip(panels, words, strict=True)
        ]
        table.add_row(_name(words[0]), *cells)
    return table


def _fitting(box: _InkBox, titles: Sequence[str], panel: TextPanel) -> Iterator[slice]:
    """Columns in portions that fit the width; a table that is squeezed cannot be read."""
    room = box.width - min(box.width // 3, max(cell_len(word.text) for word in panel.words)) - 1
    start, used = 0, 0
    for i, title in enumerate(titles):
        wide = max(COLUMN, min(len(title), 2 * COLUMN)) + 2
        if i > start and used + wide > room:
            yield slice(start, i)
            start, used = i, 0
        used += wide
    yield slice(start, len(titles))


def _name(word: Word) -> Text:
    return Text(word.text, style="italic" if word.special else "")


def _overlays(box: _InkBox, titles: Sequence[str], panels: Sequence[ImagePanel]) -> RenderableType:
    if box.theme is None:
        return Group(
            *(
                Group(Text(title, style="bold"), tenths(panel.shares, box.width))
                for title, panel in zip(titles, panels, strict=True)
            )
        )
    shown = beside(titles, panels)
    per_line = max(1, min(len(shown), box.width // 20))
    wide = min(PICTURE, box.width // per_line - 2)
    drawn = [(title, half_blocks(picture, wide)) for title, picture in shown]
    return Group(
        *(
            Padding(_row(drawn[i : i + per_line], wide), (1, 0, 0, 0))
            for i in range(0, len(drawn), per_line)
        ),
        Text(),
    )


views.register("terminal", Terminal())
