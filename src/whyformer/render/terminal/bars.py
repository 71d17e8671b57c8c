"""Bars of characters, left or right of a zero line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.table import Table
from rich.text import Text

from whyformer.render.numbers import number
from whyformer.render.panels import NOISE, Panel, TextPanel, Word, strongest_rows
from whyformer.render.terminal.ink_box import InkBox, keep_left_to_right

LONGEST, SHORTEST = 30, 4  # characters of a full bar
BEYOND = 1.1  # the share of a bar that ends with an arrow
NAME, SCORE = 28, 14  # characters of a name, at most, and of the column of scores


def bar(box: InkBox, share: float, half: int, left: int) -> Text:
    """Return a bar for `share` (-1..1, or off the scale), exact to half a character.

    It is `half` characters long at 1, with room for `left` characters before zero. An arrow marks
    a share that is off the scale.
    """
    halves = max(1, round(2 * half * min(abs(share), 1.0))) if share else 0
    line = "━" * (halves // 2)
    forward, backward = line + "╸" * (halves % 2), "╺" * (halves % 2) + line
    if abs(share) > 1 + NOISE:
        forward, backward = forward[:-1] + "▶", "◀" + backward[1:]
    before = ((backward if share < 0 else "").rjust(left), box.pen(share))
    text = Text.assemble(before, ("│", Style(dim=True)))
    return text.append(forward, box.pen(share)) if share > 0 else text


def bar_table(
    box: InkBox, head: str, panel: Panel, bars: Sequence[tuple[Text, float, float]]
) -> Table:
    """Return a table with a line for each (name, score, share) and its bar."""
    longest = max(cell_len(head), *(name.cell_len for name, _, _ in bars))
    wide = min(longest, max(8, min(NAME, box.width // 3)))
    most = max((-share for _, _, share in bars), default=0.0)
    back = min(max(most, 0.0), 1.0)  # length of the longest bar to the left
    room = box.width - wide - SCORE
    half = max(SHORTEST, min(LONGEST, int((room - 2) / (1 + back))))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column(head, width=wide, overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, score, share in bars:
        drawn = bar(box, share, half, math.ceil(half * back))
        table.add_row(name, number(score, panel.span), drawn)
    return table


def strongest_bars(box: InkBox, panel: Panel, count: int) -> Table:
    """Return the strongest words or patches, with bars in proportion."""
    rows = strongest_rows(panel.rows, count)
    bars = [
        (
            Text(keep_left_to_right(row.name), style="italic" if row.apart else ""),
            row.score,
            row.length * (BEYOND if row.beyond else 1),
        )
        for row in rows
    ]
    return bar_table(box, f"strongest {panel.unit}", panel, bars)


def word_bars(box: InkBox, panel: TextPanel) -> Table:
    """Return every word in order; a bar is full where colour is, an arrow is off the scale."""
    bars = [(word_name(word), word.score, bar_length(panel, word)) for word in panel.words]
    return bar_table(box, panel.unit, panel, bars)


def word_name(word: Word) -> Text:
    """Return the name of a word's row; special tokens are italic."""
    return Text(keep_left_to_right(word.text), style="italic" if word.special else "")


def bar_length(panel: TextPanel, word: Word) -> float:
    """Return the length of a word's bar, -1..1, or more if the word is off the scale."""
    return word.score / panel.span if panel.is_beyond(word) else panel.share(word)
