"""The page of the explorer: its form. Results arrive later as data and are set as text."""

from __future__ import annotations

from whyformer.attribution import file_views
from whyformer.explorer.catalogue import Catalogue, menu
from whyformer.explorer.limits import Limits
from whyformer.methods import methods
from whyformer.render.environment import render_template

CHOSEN = ("libragrad", "blend", "gae")  # the defaults for text and images, and attention


def page(offered: Catalogue, limits: Limits) -> bytes:
    """Return the page with its menus filled in, as UTF-8."""
    models = menu(offered)
    form_limits = {"upload": limits.upload, "characters": limits.characters, "chosen": list(CHOSEN)}
    return render_template(
        "whyformer.explorer/templates/explorer.jinja",
        models=models,
        methods=[one for one in methods.values() if not one.alias],
        chosen=CHOSEN,
        limits=limits,
        downloads=list(file_views().values()),
        # tojson writes <, > and & as escapes, so that no name can end the element.
        data={"models": models, "limits": form_limits},
        samples=offered.samples,
    ).encode()
