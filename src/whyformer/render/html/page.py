"""HTML: one page with everything in it, and the same without the page for notebooks."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whyformer.attribution import Attribution, views
from whyformer.render.colours import step
from whyformer.render.comparison import compare_samples
from whyformer.render.html.account import account
from whyformer.render.html.layer_payload import BUDGET, layer_payload
from whyformer.render.html.links import escape_json, link_payload, script_json
from whyformer.render.html.palette import picture_payload
from whyformer.render.html.style import file_text, step_class, style
from whyformer.render.html.switch import switch_payload
from whyformer.render.overlay import SEEN, encode_png, overlay_row, panel_pictures
from whyformer.render.relevance_matrix import Item, RelevanceMatrix
from whyformer.render.view_model import (
    MINUS,
    ImagePanel,
    SampleContent,
    TextPanel,
    Word,
    number,
    read_samples,
    strongest_rows,
)

if TYPE_CHECKING:
    from jinja2 import Environment

TOP = 8  # rows of the list of strongest words or patches
MOST = (100, 100)  # rows and columns of the largest table of output by input

_ONE = {
    "words": "a word",
    "patches": "a patch",
    "regions": "a region",
    "frames": "a frame",
    "queries": "a query",
}


# The script of a page, in this order; a piece of a page has only what links its streams.
_LINKS = ("ink.js", "pointing.js", "links.js")
_TOOLS = ("choices.js", "pictures.js", "levels.js", "matrix.js", "inside.js", "page.js")
_SHEETS = ("style.css", "streams.css", "tools.css")


class Html:
    """A page that asks nobody for anything; all that runs in it is a script of its own."""

    name = "html"
    title = "a web page of its own"

    def render(self, attribution: Attribution) -> str:
        """The page, light or dark as the reader's browser asks."""
        contents = read_samples(attribution)
        title = ", ".join(content.label for content in contents[:3])
        budget = BUDGET // len(contents)
        body = [
            _sample(
                content,
                tools=True,
                pictures=_json(picture_payload(content)),
                layers=_json(
                    layer_payload(attribution, i, [p.name for p in content.panels], budget)
                ),
            )
            for i, content in enumerate(contents)
        ]
        return _page(title, body, (*_LINKS, *_TOOLS), views["json"].render(_light(attribution)))

    def fragment(self, attribution: Attribution) -> str:
        """The same as a piece of a page, its style inside, for a notebook cell.

        A script comes along only where streams are linked; the tools of a page stay there.
        """
        contents = read_samples(attribution)
        body = [_sample(content) for content in contents]
        if any(content.matrices for content in contents):
            body.append(f"<script>{_script(_LINKS)}</script>")
        several = any(content.scales for content in contents)
        return _cell(body, _SHEETS[: 2 if several else 1])

    def render_comparison(
        self, attributions: Sequence[Attribution] | Mapping[str, Attribution]
    ) -> str:
        """A page that switches between attributions of one input, and has them side by side.

        They may differ by method, by options, or by what they explain; a mapping names them.
        """
        samples = compare_samples(attributions)
        template = _environment().get_template("comparison.jinja")
        body = [
            template.render(sample=sample, tools=True, data=script_json(switch_payload(sample)))
            for sample in samples
        ]
        given = attributions.values() if isinstance(attributions, Mapping) else attributions
        data = views["json"].render_comparison([_light(one) for one in given])
        title = " / ".join(dict.fromkeys((*samples[0].labels, *samples[0].choices)))
        return _page(title, body, (*_LINKS[:2], "choices.js", "switch.js", "page.js"), data)


def _sample(
    content: SampleContent, tools: bool = False, pictures: str = "", layers: str = ""
) -> str:
    template = "streams.jinja" if content.scales else "sample.jinja"
    return (
        _environment()
        .get_template(template)
        .render(
            content=content,
            top=TOP,
            most=MOST,
            tools=tools,
            links=_json(link_payload(content)),
            pictures=pictures,
            layers=layers,
        )
    )


def _json(data: Any) -> str:
    return "" if data is None else script_json(data)


def _light(attribution: Attribution) -> Attribution:
    """The attribution without what makes a page heavy: maps and layers."""
    return replace(attribution, layers=(), maps={})


@cache
def _script(names: tuple[str, ...]) -> str:
    """The files as one script that leaves no name behind."""
    return "\n".join(['(() => {\n"use strict";', *map(file_text, names), "})();"])


def _page(title: str, body: list[str], scripts: tuple[str, ...], data: str) -> str:
    return (
        _environment()
        .get_template("page.jinja")
        .render(
            title=f"Why {title}?",
            style=style(_SHEETS),
            body="\n".join(body),
            script=_script(scripts),
            data=escape_json(data),
        )
    )


def _cell(body: list[str], sheets: tuple[str, ...]) -> str:
    return f'<div class="whyformer cell"><style>{style(sheets)}</style>{"".join(body)}</div>'


def _digest(script: str) -> str:
    """What the page's policy allows to run: this script and no other."""
    return "sha256-" + base64.b64encode(sha256(script.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("whyformer.render.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        number=number,
        colour=lambda share: step_class(step(share)),
        strongest_rows=strongest_rows,
        sources=_sources,
        overlays=_overlays,
        account_of=account,
        totals=_totals,
        percent=lambda share: f"{100 * share:.1f} %".replace("-", MINUS),
        seen=SEEN,
        words_across=_words_across,
        matrix_rows=_matrix_rows,
        digest=_digest,
        items=_items,
        heads={unit: one.removeprefix("a ") for unit, one in _ONE.items()},
    )
    return environment


# -- what the templates ask for --------------------------------------------------------------


def _totals(content: SampleContent) -> list[tuple[str, str]]:
    return [(name, number(value)) for name, value in content.totals]


def _words_across(panels: Sequence[TextPanel]) -> list[tuple[Word, ...]]:
    return list(zip(*(panel.words for panel in panels), strict=True))


def _items(content: SampleContent) -> str:
    """What can be pointed at, as in 'a word or a patch'."""
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


views.register("html", Html())
