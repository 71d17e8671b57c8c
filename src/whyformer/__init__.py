"""whyformer: find out which words or image patches drove a transformer's prediction."""

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
from whyformer.recommend import recommend
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
    "recommend",
    "span",
    "token",
]


def __dir__() -> list[str]:
    """Return the public names only: submodules and imported helpers stay out of the way."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import `figure` on first use, because matplotlib takes long to import."""
    if name == "figure":
        from whyformer.render.picture.figure import figure

        return figure
    raise AttributeError(f"module 'whyformer' has no attribute {name!r}")


def methods() -> dict[str, Method]:
    """Return every explanation method by name.

    Returns:
        Method by name, sorted by name. A method has a title, a paper, promises and options.

    Example:
        >>> methods()["gae"].options["start_layer"]
        0
    """
    return dict(_methods)


def metrics() -> dict[str, Metric]:
    """Return every metric by name.

    Returns:
        Metric by name, sorted by name. A metric has a title, a range and a direction
        (`better`), and is called with an attribution.

    Example:
        >>> metrics()["auac"].better
        'higher'
    """
    return dict(_metrics)


def families() -> dict[str, Family]:
    """Return every declared model family by name.

    Returns:
        Family by name, sorted by name. `tiny()` of a family returns a small random model.

    Example:
        >>> families()["albert"].model_types
        ('albert',)
    """
    return dict(_families)


def models() -> dict[str, BundledModel]:
    """Return every bundled model by name.

    Returns:
        BundledModel by name. `samples()` of a model returns inputs to try it on.

    Example:
        >>> models()["sst2"].task
        'text-classification'
    """
    return _models()
