"""whyformer: which inputs made a transformer say that, and how far to trust the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whyformer import errors
from whyformer.attribution import Attribution, load
from whyformer.bundled import BundledModel
from whyformer.bundled import models as _models
from whyformer.compare import Comparison, compare
from whyformer.explain import explain
from whyformer.families import Family
from whyformer.families import families as _families
from whyformer.inputs.targets import contrast, query, span, token
from whyformer.methods import Method
from whyformer.methods import methods as _methods
from whyformer.metrics import Metric
from whyformer.metrics import metrics as _metrics

if TYPE_CHECKING:
    from whyformer.views.figure import Picture

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


def figure(
    cells: Any,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    scale: str = "method",
    subwords: bool = False,
) -> Picture:
    """Attributions in rows and columns as one picture, for a paper; `.save("why.pdf")` writes it.

    `cells` is one attribution, or rows of them; None leaves a cell blank. Titles that are not
    given are found. `scale` says which cells share a colour scale: those of one "method", the
    whole "figure", or each "cell" has its own.
    """
    from whyformer.views.figure import figure as draw

    return draw(cells, rows=rows, columns=columns, scale=scale, subwords=subwords)


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
