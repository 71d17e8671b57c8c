"""The one page of the explorer; all that it shows later comes as data and is set as text."""

from __future__ import annotations

from whyformer.explorer.catalogue import Catalogue, menu
from whyformer.explorer.limits import Limits
from whyformer.methods import methods

CHOSEN = ("lrp_ah_ln", "gae", "rollout")  # conservative, attention with gradient, attention alone


def page(offered: Catalogue, limits: Limits) -> bytes:
    """The page with its menus filled in, as UTF-8."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("whyformer.explorer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    models = menu(offered)
    told = {"upload": limits.upload, "characters": limits.characters, "chosen": list(CHOSEN)}
    return (
        environment.get_template("explorer.jinja")
        .render(
            models=models,
            methods=list(methods.values()),
            chosen=CHOSEN,
            limits=limits,
            # tojson writes <, > and & as escapes, so that no name can end the element.
            data={"models": models, "limits": told},
        )
        .encode()
    )
