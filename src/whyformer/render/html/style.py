"""The CSS of a page: style sheets, and the palettes of both themes as variables."""

from __future__ import annotations

from functools import cache

from whyformer.render.colours import DARK, LIGHT, STEPS, Colour, Theme, css, ink
from whyformer.render.environment import read_text

# The colour of controls, which no score has.
_ACCENTS: dict[str, Colour] = {"light": (88, 72, 168), "dark": (176, 164, 248)}

# Notebooks have their own theme, which may differ from the browser's.
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
def style(sheets: tuple[str, ...]) -> str:
    """Return the CSS: the sheets, and the palettes of both themes as variables."""
    light, dark = _variables(LIGHT), _variables(DARK)
    steps = [
        # Important, so that themes and scripts overrule the inline colours of a notebook.
        f".whyformer .{name}{{background:var(--{name})!important;color:var(--i{name})!important}}"
        for name in map(step_class, range(-STEPS, STEPS + 1))
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
            f"@media print{{.whyformer{{{light}}}}}",
            *map(file_text, sheets),
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
        "accent": _ACCENTS[theme.name],
    }
    for s in range(-STEPS, STEPS + 1):
        named[step_class(s)] = theme.colour(s / STEPS)
        named[f"i{step_class(s)}"] = ink(theme.colour(s / STEPS))
    return f"color-scheme:{theme.name};" + ";".join(f"--{k}:{css(v)}" for k, v in named.items())


def _gradient(low: int, theme: Theme | None) -> str:
    stops = [
        f"var(--{step_class(s)})" if theme is None else css(theme.colour(s / STEPS))
        for s in range(low, STEPS + 1, STEPS // 4)
    ]
    return f"linear-gradient(90deg,{','.join(stops)})"


def step_class(whole: int) -> str:
    """Return the class of a palette step: n20 .. n1, p0, p1 .. p20."""
    return f"n{-whole}" if whole < 0 else f"p{whole}"


def file_text(name: str) -> str:
    """Return the text of a style sheet or script of this folder."""
    return read_text(f"whyformer.render.html/templates/{name}")
