"""whyformer: which inputs made a transformer say that, and how far to trust the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whyformer import errors
from whyformer.attribution import Attribution, load
from whyformer.compare import Comparison, compare
from whyformer.explain import explain
from whyformer.methods import Method
from whyformer.methods import methods as _methods
from whyformer.metrics import Metric
from whyformer.metrics import metrics as _metrics
from whyformer.models.bundled import BundledModel
from whyformer.models.bundled import models as _models
from whyformer.models.families import Family
from whyformer.models.families import families as _families
from whyformer.targets.resolve import contrast, query, span, token

if TYPE_CHECKING:
    from whyformer.render.picture.figure import figure as figure

__version__ = "0.1.0"
__all__ = [
    "Attribution",
    "Comparison",
    "compare",
    "contrast",
    "errors",
    "explain",
    "families",
    "figure",
    "load",
    "methods",
    "metrics",
    "models",
    "query",
    "span",
    "token",
]


def __getattr__(name: str) -> Any:
    """`figure`, when it is asked for: the picture views take their time to import."""
    if name == "figure":
        from whyformer.render.picture.figure import figure

        return figure
    raise AttributeError(f"module 'whyformer' has no attribute {name!r}")


def methods() -> dict[str, Method]:
    """Every method by name."""
    return dict(_methods)


def metrics() -> dict[str, Metric]:
    """Every metric by name."""
    return dict(_metrics)


def families() -> dict[str, Family]:
    """Every declared model family by name."""
    return dict(_families)


def models() -> dict[str, BundledModel]:
    """Every bundled model by name."""
    return _models()
