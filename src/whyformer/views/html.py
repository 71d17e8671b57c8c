"""HTML: one page with everything in it, and the same without the page for notebooks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING

from torch import Tensor

from whyformer.attribution import Attribution, views
from whyformer.views.between import Item, Matrix
from whyformer.views.colour import DARK, LIGHT, STEPS, Colour, Theme, css, ink, step
from whyformer.views.comparison import compare
from whyformer.views.links import linked, safe
from whyformer.views.overlay import beside, pictures, png
from whyformer.views.reading import (
    ImagePanel,
    Reading,
    TextPanel,
    Word,
    number,
    read,
    strongest,
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


class Html:
    """A page that asks nobody for anything; a script of its own only where streams are linked."""

    name = "html"
    title = "a web page of its own"

    def render(self, attribution: Attribution) -> str:
        """The page, light or dark as the reader's browser asks."""
        readings = read(attribution)
        title = ", ".join(reading.label for reading in readings[:3])
        return _page(title, _samples(readings), _sheets(readings), _script(readings))

    def fragment(self, attribution: Attribution) -> str:
        """The same as a piece of a page, its style inside, for a notebook cell."""
        readings = read(attribution)
        script = _script(readings)
        body = _samples(readings) + ([f"<script>{script}</script>"] if script else [])
        return _cell(body, _sheets(readings))

    def render_comparison(self, attributions: Sequence[Attribution]) -> str:
        """A page with a table of words or a row of overlays, one column per attribution."""
        samples = compare(attributions)
        template = _environment().get_template("comparison.jinja")
        body = [template.render(sample=sample) for sample in samples]
        return _page(" / ".join(samples[0].titles), body)


def _samples(readings: Sequence[Reading]) -> list[str]:
    return [
        _environment()
        .get_template("streams.jinja" if reading.scales else "sample.jinja")
        .render(reading=reading, top=TOP, most=MOST, links=_links(reading))
        for reading in readings
    ]


def _links(reading: Reading) -> str:
    data = linked(reading)
    return "" if data is None else safe(data)


def _sheets(readings: Sequence[Reading]) -> tuple[str, ...]:
    """The style sheets that the samples need."""
    several = any(reading.scales for reading in readings)
    return ("style.css", "streams.css") if several else ("style.css",)


def _script(readings: Sequence[Reading]) -> str:
    """The script that links streams, where there is anything to link."""
    return _text("links.js") if any(reading.matrices for reading in readings) else ""


def _page(
    title: str, body: list[str], sheets: tuple[str, ...] = ("style.css",), script: str = ""
) -> str:
    return (
        _environment()
        .get_template("page.jinja")
        .render(title=f"Why {title}?", style=_style(sheets), body="\n".join(body), script=script)
    )


def _cell(body: list[str], sheets: tuple[str, ...]) -> str:
    return f'<div class="whyformer cell"><style>{_style(sheets)}</style>{"".join(body)}</div>'


def _digest(script: str) -> str:
    """What the page's policy allows to run: this script and no other."""
    return "sha256-" + base64.b64encode(sha256(script.encode()).digest()).decode()


@cache
def _text(name: str) -> str:
    return resources.files("whyformer.views").joinpath(f"templates/{name}").read_text("utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("whyformer.views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        number=number,
        colour=lambda share: _name(step(share)),
        strongest=strongest,
        sources=_sources,
        overlays=_overlays,
        held=_held,
        words_across=_words_across,
        matrix_rows=_matrix_rows,
        digest=_digest,
        items=_items,
        heads={unit: one.removeprefix("a ") for unit, one in _ONE.items()},
    )
    return environment


# -- what the templates ask for --------------------------------------------------------------


def _held(reading: Reading) -> list[tuple[str, str]]:
    return [(name, number(value)) for name, value in reading.held]


def _words_across(panels: Sequence[TextPanel]) -> list[tuple[Word, ...]]:
    return list(zip(*(panel.words for panel in panels), strict=True))


def _items(reading: Reading) -> str:
    """What can be pointed at, as in 'a word or a patch'."""
    return " or ".join(dict.fromkeys(_ONE[panel.unit] for panel in reading.panels))


def _matrix_rows(matrix: Matrix) -> list[tuple[Item, list[float], list[float]]]:
    values, shares = matrix.values.tolist(), matrix.shares.tolist()
    return list(zip(matrix.rows, values, shares, strict=True))


def _source(picture: Tensor) -> str:
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode()


def _sources(panel: ImagePanel) -> list[tuple[str, str]]:
    return [(caption, _source(picture)) for caption, picture in pictures(panel)]


def _overlays(titles: Sequence[str], panels: Sequence[ImagePanel]) -> list[tuple[str, str]]:
    return [(title, _source(picture)) for title, picture in beside(titles, panels)]


# -- colours as CSS --------------------------------------------------------------------------

# Notebooks have a theme of their own, which need not be the browser's.
_DARK_PLACES = (
    '[data-jp-theme-light="false"] .whyformer',
    ".vscode-dark .whyformer",
    'html[theme="dark"] .whyformer',
)
_LIGHT_PLACES = (
    '[data-jp-theme-light="true"] .whyformer',
    ".vscode-light .whyformer",
    'html[theme="light"] .whyformer',
)


@cache
def _style(sheets: tuple[str, ...]) -> str:
    """All of the CSS: the sheets, and the palette of either theme as variables."""
    light, dark = _variables(LIGHT), _variables(DARK)
    steps = [
        f".whyformer .{_name(s)}{{background:var(--{_name(s)});color:var(--i{_name(s)})}}"
        for s in range(-STEPS, STEPS + 1)
    ]
    scales = [
        f".whyformer .for-words.{kind}{{background:{_gradient(low, None)}}}\n"
        f".whyformer .for-pictures.{kind}{{background:{_gradient(low, LIGHT)}}}"
        for kind, low in (("signed", -STEPS), ("warm", 0))
    ]
    return "\n".join(
        [
            f".whyformer{{{light}}}",
            f"@media (prefers-color-scheme:dark){{.whyformer{{{dark}}}}}",
            f"{','.join(_DARK_PLACES)}{{{dark}}}",
            f"{','.join(_LIGHT_PLACES)}{{{light}}}",
            *map(_text, sheets),
            *steps,
            *scales,
        ]
    )


def _variables(theme: Theme) -> str:
    named: dict[str, Colour] = {
        "page": theme.page,
        "text": theme.text,
        "quiet": theme.quiet,
        "line": theme.line,
        "for": theme.warm,
        "against": theme.cool,
    }
    for s in range(-STEPS, STEPS + 1):
        named[_name(s)] = theme.colour(s / STEPS)
        named[f"i{_name(s)}"] = ink(theme.colour(s / STEPS))
    return f"color-scheme:{theme.name};" + ";".join(f"--{k}:{css(v)}" for k, v in named.items())


def _gradient(low: int, theme: Theme | None) -> str:
    stops = [
        f"var(--{_name(s)})" if theme is None else css(theme.colour(s / STEPS))
        for s in range(low, STEPS + 1, STEPS // 4)
    ]
    return f"linear-gradient(90deg,{','.join(stops)})"


def _name(whole: int) -> str:
    """The class of a palette step: n20 .. n1, p0, p1 .. p20."""
    return f"n{-whole}" if whole < 0 else f"p{whole}"


views.register("html", Html())
