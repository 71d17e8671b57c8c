"""What mkdocs does beyond its settings: formulas, generated pages, and pages that join later.

- Formulas between dollar signs become MathML, which browsers draw without scripts.
- Every method's page, and every page that the navigation forgets, is added to it.
- The page of the command line lists all options.
- Links to files outside docs/ become plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

from docs.cli_reference import cli_reference

CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.M | re.S)
BLOCK = re.compile(r"\$\$(.+?)\$\$", re.S)
INLINE = re.compile(r"\$(?!\s)([^$\n]+?)(?<!\s)\$")
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)]*)\)")
COMMANDS = "<!-- commands -->"


def on_config(config: Any) -> Any:
    """Add the pages of methods, and all other pages that the navigation does not name."""
    folder = Path(config["docs_dir"])
    methods = next(part["Methods"] for part in config["nav"] if "Methods" in part)
    methods += [{page.stem: f"methods/{page.name}"} for page in sorted(folder.glob("methods/*.md"))]
    known = set(_pages(config["nav"]))
    rest = sorted(page.name for page in folder.glob("*.md") if page.name not in known)
    if rest:
        config["nav"].append({"More": rest})
    return config


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Return the text with formulas as MathML and without links that lead out of the site."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, cli_reference())
    depth = page.file.src_uri.count("/")
    return _outside_code(markdown, lambda text: _drop_outside_links(math_to_markup(text), depth))


def math_to_markup(text: str) -> str:
    """Return Markdown with every formula as MathML."""
    text = BLOCK.sub(lambda match: convert(match[1].strip(), display="block"), text)
    return INLINE.sub(lambda match: convert(match[1]), text)


def _drop_outside_links(text: str, depth: int) -> str:
    """Return Markdown in which a link to a file above docs/ is its text alone."""

    def link(match: re.Match[str]) -> str:
        return match[1] if match[0].count("../") > depth else match[0]

    return OUTSIDE.sub(link, text)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return the text with everything but code changed."""
    parts = CODE.split(text)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(parts))


def _pages(nav: Any) -> list[str]:
    """Return the pages that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages(part)]
