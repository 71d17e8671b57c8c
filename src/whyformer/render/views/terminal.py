"""Registers the view `terminal`."""

import whyformer.render.terminal.text  # noqa: F401
