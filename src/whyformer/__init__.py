"""whyformer: find out which words or image patches drove a transformer's prediction."""

from __future__ import annotations

import importlib
import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from whyformer import errors

if TYPE_CHECKING:
    from whyformer.attribution import Attribution as Attribution
    from whyformer.attribution import load as load
    from whyformer.audit import audit as audit
    from whyformer.compare import Comparison as Comparison
    from whyformer.compare import compare as compare
    from whyformer.evaluate import evaluate as evaluate
    from whyformer.explain import explain as explain
    from whyformer.methods import Method
    from whyformer.metrics import Metric
    from whyformer.models.bundled import BundledModel
    from whyformer.models.families import Family
    from whyformer.recommend import recommend as recommend
    from whyformer.render.picture.figure import figure as figure
    from whyformer.summarize import summarize as summarize
    from whyformer.targets.resolve import contrast as contrast
    from whyformer.targets.resolve import query as query
    from whyformer.targets.resolve import span as span
    from whyformer.targets.resolve import token as token

# The user's program decides what to do with log lines of "whyformer".
logging.getLogger("whyformer").addHandler(logging.NullHandler())

__version__ = "0.2.0"
__all__ = [
    "Attribution",
    "Comparison",
    "audit",
    "compare",
    "contrast",
    "errors",
    "evaluate",
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
    "summarize",
    "token",
]


def __dir__() -> list[str]:
    """Return the public names only: submodules and imported helpers stay out of the way."""
    return sorted(__all__)


# Where each public name is defined. Imported on first use, because torch takes seconds to import.
_MODULES = {
    "Attribution": "whyformer.attribution",
    "Comparison": "whyformer.compare",
    "audit": "whyformer.audit",
    "compare": "whyformer.compare",
    "contrast": "whyformer.targets.resolve",
    "evaluate": "whyformer.evaluate",
    "explain": "whyformer.explain",
    "figure": "whyformer.render.picture.figure",
    "load": "whyformer.attribution",
    "query": "whyformer.targets.resolve",
    "recommend": "whyformer.recommend",
    "span": "whyformer.targets.resolve",
    "summarize": "whyformer.summarize",
    "token": "whyformer.targets.resolve",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'whyformer' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


class _PublicDoor(ModuleType):
    """The package: `explain`, `methods`, ... are its functions and never the submodules."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets each imported submodule as an attribute of its package.
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _PublicDoor


def methods() -> dict[str, Method]:
    """Return every explanation method by name.

    Returns:
        Method by name, sorted by name. A method has a title, a paper, promises and options.

    Example:
        >>> methods()["gae"].options["start_layer"]
        0
    """
    from whyformer.methods import methods as registered

    return dict(registered)


def metrics() -> dict[str, Metric]:
    """Return every metric by name.

    Returns:
        Metric by name, sorted by name. A metric has a title, a range and a direction
        (`better`), and is called with an attribution.

    Example:
        >>> metrics()["auac"].better
        'higher'
    """
    from whyformer.metrics import metrics as registered

    return dict(registered)


def families() -> dict[str, Family]:
    """Return every declared model family by name.

    Returns:
        Family by name, sorted by name. `tiny()` of a family returns a small random model.

    Example:
        >>> families()["albert"].model_types
        ('albert',)
    """
    from whyformer.models.families import families as registered

    return dict(registered)


def models() -> dict[str, BundledModel]:
    """Return every bundled model by name.

    Returns:
        BundledModel by name. `samples()` of a model returns inputs to try it on.

    Example:
        >>> models()["sst2"].task
        'text-classification'
    """
    from whyformer.models.bundled import models as registered

    return registered()
