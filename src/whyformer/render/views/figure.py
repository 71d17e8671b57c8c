"""Registers the view `figure`."""

import whyformer.render.picture.figure  # noqa: F401
