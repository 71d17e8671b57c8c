"""HTML in parts, so that a page can hold many fragments with one style and one script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from whyformer.render.environment import render_template


@dataclass(frozen=True)
class Fragment:
    """A piece of a page.

    Attributes:
        style: CSS. Fragments of one kind have the same, so that a page needs it once.
        body: HTML, without style and script.
        script: JavaScript that makes the body interactive, or "".
    """

    style: str
    body: Markup
    script: str = ""

    @property
    def element(self) -> Markup:
        """The body as one element, for a page that has the style and the script elsewhere."""
        return Markup('<div class="whyformer cell">{}</div>').format(self.body)

    def to_html(self) -> str:
        """Return one element with everything in it, for a notebook cell."""
        script = f"<script>{self.script}</script>" if self.script else ""
        inside = f"<style>{self.style}</style>{self.body}{script}"
        return f'<div class="whyformer cell">{inside}</div>'


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: The title of the browser's tab.
        style: CSS.
        body: What `<main>` holds.
        scripts: JavaScript; the page's policy allows these and no others.
        data: All scores as JSON, for the button that copies them.
    """

    title: str
    style: str
    body: Markup
    scripts: tuple[str, ...]
    data: str

    def with_script(self, script: str) -> Page:
        """Return the page with one more script."""
        return replace(self, scripts=(*self.scripts, script))

    def to_html(self) -> str:
        """Return the text of the page."""
        return render_template("whyformer.render.html/templates/page.jinja", page=self)

    @property
    def size(self) -> int:
        """About the number of bytes of the page."""
        return sum(map(len, (self.title, self.style, self.body, *self.scripts, self.data)))


def unique_styles(fragments: Sequence[Fragment]) -> list[str]:
    """Return the styles that a page with these fragments needs, each once."""
    return list(dict.fromkeys(fragment.style for fragment in fragments))


def unique_scripts(fragments: Sequence[Fragment]) -> list[str]:
    """Return the scripts that a page with these fragments needs, each once."""
    return list(dict.fromkeys(fragment.script for fragment in fragments if fragment.script))
