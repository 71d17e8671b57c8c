"""The result of an explanation: frozen, indexable per sample, saved without pickle."""

from whyformer.attribution.attribution import (
    FORMAT,
    Attribution,
    Layer,
    Stream,
    load,
    views,
    written,
)

__all__ = ["FORMAT", "Attribution", "Layer", "Stream", "load", "views", "written"]
