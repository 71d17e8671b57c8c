"""The one Jinja environment, and the text of template, style and script files of the package.

A file is named by its package and its path there: "whyformer.audit/page/report.jinja". A template
names others by their path beside it: {% import "parts.jinja" as parts with context %}.
"""

from __future__ import annotations

import base64
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render_template(name: str, **values: Any) -> str:
    """Return the template filled in. All values are escaped, unless they are `Markup`."""
    return _environment().get_template(name).render(**values)


@cache
def read_text(name: str) -> str:
    """Return the text of a file of the package."""
    package, _, path = name.partition("/")
    return resources.files(package).joinpath(path).read_text("utf-8")


def script_digest(script: str) -> str:
    """Return the digest by which a content security policy allows this script to run."""
    return "sha256-" + base64.b64encode(sha256(script.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    class BesideEnvironment(Environment):
        """Finds imported templates in the folder of the template that imports them."""

        def join_path(self, template: str, parent: str) -> str:
            return f"{parent.rpartition('/')[0]}/{template}"

    environment = BesideEnvironment(
        loader=FunctionLoader(read_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["digest"] = script_digest
    return environment
