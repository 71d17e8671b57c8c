"""Registers the view `html`."""

import whyformer.render.html.page  # noqa: F401
