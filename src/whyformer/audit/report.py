"""The report of an audit: one HTML page with everything in it, light or dark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from whyformer.attribution import views
from whyformer.audit.drawing import drawn
from whyformer.audit.findings import Audit

if TYPE_CHECKING:
    from jinja2 import Environment

LISTED = ("groups", "templates", "terms")  # settings that are lists: folded away


def page(audit: Audit) -> str:
    """The page; whatever users wrote is escaped by the templates."""
    # A fragment is made by templates that escape: escaping it again would show its tags.
    examples = [
        (example.caption, Markup(views["html"].fragment(example.attribution)))
        for example in audit.examples
    ]
    return (
        _environment()
        .get_template("report.jinja")
        .render(
            audit=audit,
            style=Markup(_text("report.css")),
            drawings=[drawn(chart) for chart in audit.charts],
            examples=examples,
            facts=_facts(audit.settings),
            lists={k: v for k in LISTED if (v := audit.settings.get(k))},
        )
    )


def _facts(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The settings that fit on a line each."""
    found = []
    for name, value in settings.items():
        if name in LISTED or value is None:
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{key} {part}" for key, part in value.items())
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        elif isinstance(value, bool):
            value = "yes" if value else "no"
        found.append((name, str(value)))
    return found


@cache
def _text(name: str) -> str:
    return resources.files("whyformer.audit").joinpath(f"page/{name}").read_text("utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("whyformer.audit", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
