"""Registers the view `png`."""

import whyformer.render.picture.picture  # noqa: F401
