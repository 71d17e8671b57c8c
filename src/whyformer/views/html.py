"""HTML: one page with everything in it, and the same without the page for notebooks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from torch import Tensor

from whyformer.attribution import Attribution, views
from whyformer.views.colour import DARK, LIGHT, STEPS, Colour, Theme, css, ink, step
from whyformer.views.comparison import OWN_SCALES, compare
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


class Html:
    """A page that asks nobody for anything: no scripts, no fonts, pictures inside."""

    name = "html"
    title = "a web page of its own"

    def render(self, attribution: Attribution) -> str:
        """The page, light or dark as the reader's browser asks."""
        readings = read(attribution)
        return _page(", ".join(reading.label for reading in readings[:3]), _samples(readings))

    def fragment(self, attribution: Attribution) -> str:
        """The same as a piece of a page, its style inside, for a notebook cell."""
        return _cell(_samples(read(attribution)))

    def render_comparison(self, attributions: Sequence[Attribution]) -> str:
        """A page with a table of words or a row of overlays, one column per attribution."""
        samples = compare(attributions)
        template = _environment().get_template("comparison.jinja")
        body = [template.render(sample=sample, own_scales=OWN_SCALES) for sample in samples]
        return _page(" / ".join(samples[0].titles), body)


def _samples(readings: Sequence[Reading]) -> list[str]:
    template = _environment().get_template("sample.jinja")
    return [template.render(reading=reading, top=TOP) for reading in readings]


def _page(title: str, body: list[str]) -> str:
    template = _environment().get_template("page.jinja")
    return template.render(title=f"Why {title}?", style=_style(), body="\n".join(body))


def _cell(body: list[str]) -> str:
    return f'<div class="whyformer cell"><style>{_style()}</style>{"".join(body)}</div>'


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
    )
    return environment


# -- what the templates ask for --------------------------------------------------------------


def _held(reading: Reading) -> list[tuple[str, str]]:
    return [(name, number(value)) for name, value in reading.sinks]


def _words_across(panels: Sequence[TextPanel]) -> list[tuple[Word, ...]]:
    return list(zip(*(panel.words for panel in panels), strict=True))


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
def _style() -> str:
    """All of the CSS: the sheet, and the palette of either theme as variables."""
    sheet = resources.files("whyformer.views").joinpath("templates/style.css").read_text("utf-8")
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
            sheet,
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
