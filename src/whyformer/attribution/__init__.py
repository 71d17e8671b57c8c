"""The result of an explanation: frozen, indexable per sample, saved without pickle."""

from whyformer.attribution.attribution import Attribution
from whyformer.attribution.layer import Layer
from whyformer.attribution.nodes import Nodes
from whyformer.attribution.storage import FORMAT, load
from whyformer.attribution.stream import Stream
from whyformer.attribution.trust import Reason, Trust, make_trust
from whyformer.attribution.view_registry import View, file_views, view, views
from whyformer.attribution.viewable import Viewable, write_file

__all__ = [
    "FORMAT",
    "Attribution",
    "Layer",
    "Nodes",
    "Reason",
    "Stream",
    "Trust",
    "View",
    "Viewable",
    "file_views",
    "load",
    "make_trust",
    "view",
    "views",
    "write_file",
]
