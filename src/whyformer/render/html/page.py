"""Web pages of attributions and comparisons, and fragments of them for other pages."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from markupsafe import Markup
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.render.answer import UNSURE, AnswerWord
from whyformer.render.colours import step
from whyformer.render.comparison import OWN, compare_samples
from whyformer.render.environment import render_template
from whyformer.render.html.account import account
from whyformer.render.html.fragment import Fragment, Page
from whyformer.render.html.inline_colours import bar_style, squares, tint
from whyformer.render.html.layer_payload import BUDGET, layer_payload
from whyformer.render.html.links import escape_json, link_payload, script_json
from whyformer.render.html.palette import picture_payload
from whyformer.render.html.style import file_text, step_class, style
from whyformer.render.html.switch import switch_payload
from whyformer.render.json_text import to_json
from whyformer.render.numbers import MINUS, number
from whyformer.render.overlay import SEEN, encode_png, overlay_row, panel_pictures
from whyformer.render.panels import ImagePanel, Panel, TextPanel, Word, strongest_rows
from whyformer.render.relevance_matrix import Item, RelevanceMatrix
from whyformer.render.sentences import ends_line
from whyformer.render.signs import short
from whyformer.render.view_model import SampleContent, read_samples

TOP = 8  # rows of the list of strongest words or patches
MOST = (100, 100)  # rows and columns of the largest table of output by input
LARGE = 1000  # cells of a table that is folded
FOLDED = (50, 50)  # rows and columns of such a table, at most
LISTED = 1000  # words of the longest text that is also listed word by word
TALL = 60  # words of an answer that scrolls, so that the prompt stays in sight
OPEN = 3  # sentences of a long text that are unfolded at first

_ONE = {
    "words": "a word",
    "patches": "a patch",
    "regions": "a region",
    "frames": "a frame",
    "queries": "a query",
}


# The script files of a page, in this order. A fragment has only those that link its streams.
_LINKS = ("ink.js", "pointing.js", "choices.js", "long.js", "links.js")
_TOOLS = ("pictures.js", "levels.js", "matrix.js", "inside.js", "page.js")
_SHEETS = ("style.css", "streams.css", "answers.css", "tools.css")


def build_page(attribution: Attribution) -> Page:
    """Return the page of an attribution, with all of its samples and tools."""
    contents = read_samples(attribution)
    budget = BUDGET // len(contents)
    body = [
        _render_sample(
            content,
            tools=True,
            pictures=_json(picture_payload(content)),
            layers=_json(layer_payload(attribution, i, [p.name for p in content.panels], budget)),
        )
        for i, content in enumerate(contents)
    ]
    title = ", ".join(short(content.label) for content in contents[:3])
    data = to_json(_without_maps(attribution).to_dict())
    return _page(title, body, (*_LINKS, *_TOOLS), data)


def build_comparison_page(
    attributions: Sequence[Attribution] | Mapping[str, Attribution], scale: str = OWN
) -> Page:
    """Return a page that switches between attributions of one input and compares them.

    They may differ by method, by options, or by target. A mapping names them. `scale` is "own"
    or "shared"; see `compare_samples`. Explanations of written answers are shown one at a time,
    with the links from each word of the answer, if each has its own scale.
    """
    samples = compare_samples(attributions, scale)
    given = list(attributions.values() if isinstance(attributions, Mapping) else attributions)
    answers = any(("generated", stream) in one.maps for one in given for stream in one.streams)
    if answers and scale == OWN:
        return _answers_page(given, samples[0].choices)
    body = [
        _render(
            "comparison.jinja",
            sample=sample,
            inline=False,
            data=script_json(switch_payload(sample)),
        )
        for sample in samples
    ]
    data = to_json([_without_maps(one).to_dict() for one in given])
    title = " / ".join(dict.fromkeys((*samples[0].labels, *samples[0].choices)))
    return _page(title, body, (*_LINKS[:3], "switch.js", "page.js"), data)


def _answers_page(attributions: Sequence[Attribution], names: Sequence[str]) -> Page:
    """Return a page with explanations of written answers, of which it shows one."""
    pages = [build_page(attribution) for attribution in attributions]
    if len(pages) == 1:
        return pages[0]
    body = [
        Markup('<section class="one-answer" data-name="{}">{}</section>').format(name, page.body)
        for name, page in zip(names, pages, strict=True)
    ]
    data = to_json([_without_maps(one).to_dict() for one in attributions])
    title = pages[0].title.removeprefix("Why ").removesuffix("?")
    return _page(title, body, (*_LINKS, *_TOOLS, "one_answer.js"), data)


def build_fragment(attribution: Attribution) -> Fragment:
    """Return an attribution as a piece of a page, without the tools of a page."""
    return build_sample_fragment(read_samples(attribution))


def build_sample_fragment(contents: Sequence[SampleContent], inline: bool = False) -> Fragment:
    """Return samples as a piece of a page; it has a script only if their streams are linked.

    Set `inline` for places that may remove styles and scripts, such as notebooks: colours then
    also stand at each word, and squares take their place where that is removed too.
    """
    linked = any(content.matrices or _has_long_text(content) for content in contents)
    several = any(content.scales or _has_long_text(content) for content in contents)
    return Fragment(
        style((*_SHEETS[: 3 if several else 1], *("notebook.css",) * inline)),
        Markup("").join(_render_sample(content, inline=inline) for content in contents),
        _script(_LINKS) if linked else "",
    )


def _render_sample(
    content: SampleContent,
    tools: bool = False,
    pictures: str = "",
    layers: str = "",
    inline: bool = False,
) -> Markup:
    return _render(
        "streams.jinja" if content.scales else "sample.jinja",
        content=content,
        tools=tools,
        links=_json(link_payload(content)),
        pictures=pictures,
        layers=layers,
        inline=inline,
    )


def _render(name: str, **values: Any) -> Markup:
    # The templates escape: escaping their result again would show its tags.
    return Markup(render_template(f"whyformer.render.html/templates/{name}", **_HELPERS, **values))


def _json(data: Any) -> str:
    return "" if data is None else script_json(data)


def _without_maps(attribution: Attribution) -> Attribution:
    """The attribution without layers and maps, which would make a page heavy."""
    return replace(attribution, layers=(), maps={})


@cache
def _script(names: tuple[str, ...]) -> str:
    """The files as one script that defines no global name."""
    return "\n".join(['(() => {\n"use strict";', *map(file_text, names), "})();"])


def _page(title: str, body: list[Markup], scripts: tuple[str, ...], data: str) -> Page:
    return Page(
        title=f"Why {title}?",
        style=style(_SHEETS),
        body=Markup("\n").join(body),
        scripts=(_script(scripts),),
        data=escape_json(data),
    )


# -- what the templates call ------------------------------------------------------------------


def _has_long_text(content: SampleContent) -> bool:
    return any(isinstance(panel, TextPanel) and panel.long for panel in content.panels)


def _arranged(content: SampleContent) -> tuple[list[Panel], list[Panel]]:
    """The panels in order, the answer first, and the images that stand beside an answer."""
    answer = content.answer
    if answer is None:
        return list(content.panels), []
    first: list[Panel] = [] if answer.output_words else [answer]
    images: list[Panel] = [p for p in content.panels if isinstance(p, ImagePanel)]
    return [
        *first,
        *(p for p in content.panels if not any(p is one for one in (*first, *images))),
    ], images


def _chance(word: Word | AnswerWord, before: str = "") -> str:
    """The probability of a generated word, or ""."""
    chance = word.probability
    if chance is None:
        return ""
    share = 100 * chance
    text = "< 1" if 0 < share < 0.5 else "> 99" if 99.5 < share < 100 else f"{share:.0f}"
    return f"{before}probability {text} %"


@dataclass(frozen=True)
class _SentenceLine:
    """One sentence of a long text; `role` is not None where a chat message begins."""

    text: str
    words: tuple[Word, ...]
    score: float
    share: float
    span: float
    open: bool
    role: str | None


def _sentence_lines(panel: TextPanel) -> list[_SentenceLine]:
    scores, places = panel.sentence_scores, panel.sentences
    span = panel.sentence_span
    strongest = sorted(range(len(scores)), key=lambda i: -abs(scores[i]))[:OPEN]
    roles = {start: role for start, _, role in panel.roles}
    return [
        _SentenceLine(
            text=" ".join(word.text for word in panel.words[start:end]),
            words=panel.words[start:end],
            score=scores[i],
            share=max(-1.0, min(1.0, scores[i] / span)),
            span=span,
            open=i in strongest,
            role=roles.get(start),
        )
        for i, (start, end) in enumerate(places)
    ]


def _totals(content: SampleContent) -> list[tuple[str, str]]:
    return [(name, number(value)) for name, value in content.totals]


def _words_across(panels: Sequence[TextPanel]) -> list[tuple[Word, ...]]:
    return list(zip(*(panel.words for panel in panels), strict=True))


def _items(content: SampleContent) -> str:
    """The kinds of items, such as 'a word or a patch'."""
    return " or ".join(dict.fromkeys(_ONE[panel.unit] for panel in content.panels))


def _matrix_rows(matrix: RelevanceMatrix) -> list[tuple[Item, list[float], list[float]]]:
    values, shares = matrix.values.tolist(), matrix.shares.tolist()
    return list(zip(matrix.rows, values, shares, strict=True))


def _source(picture: Tensor) -> str:
    return "data:image/png;base64," + base64.b64encode(encode_png(picture)).decode()


def _sources(panel: ImagePanel) -> list[tuple[str, str]]:
    return [(caption, _source(picture)) for caption, picture in panel_pictures(panel)]


def _overlays(titles: Sequence[str], panels: Sequence[ImagePanel]) -> list[tuple[str, str]]:
    return [(title, _source(picture)) for title, picture in overlay_row(titles, panels)]


_HELPERS: dict[str, Any] = {
    "top": TOP,
    "listed": LISTED,
    "short": short,
    "arranged": _arranged,
    "sentence_lines": _sentence_lines,
    "ends_line": ends_line,
    "chance": _chance,
    "unsure": UNSURE,
    "tall": TALL,
    "is_large": lambda matrix: matrix.values.numel() > LARGE,
    "folded": FOLDED,
    "most": MOST,
    "number": number,
    "colour": lambda share: step_class(step(share)),
    "tint": tint,
    "bar_style": bar_style,
    "squares": squares,
    "strongest_rows": strongest_rows,
    "sources": _sources,
    "overlays": _overlays,
    "account_of": account,
    "totals": _totals,
    "percent": lambda share: f"{100 * share:.1f} %".replace("-", MINUS),
    "seen": SEEN,
    "words_across": _words_across,
    "matrix_rows": _matrix_rows,
    "items": _items,
    "heads": {unit: one.removeprefix("a ") for unit, one in _ONE.items()},
}
