"""What a worker of `explain --input` does: it explains a window of rows and returns their scores.

A window is explained by itself, so that its numbers do not depend on the engine or on what an
earlier run had finished.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import whyformer
from whyformer.cli.score_writer import Row, score_row
from whyformer.datasets import Sample
from whyformer.errors import SkippedWarning, TrustWarning, WhyformerError
from whyformer.evaluation.sent_model import load_again
from whyformer.models.load import Loaded
from whyformer.workers.chunk import Work


@dataclass(frozen=True)
class Window:
    """Consecutive rows; `start` is the position of the first in the whole input."""

    start: int
    samples: Sequence[Sample]

    def alone(self) -> list[Window]:
        """Return each row as a window of its own."""
        return [Window(self.start + i, [one]) for i, one in enumerate(self.samples)]


@dataclass(frozen=True)
class WindowScores:
    """The output rows of a window, what was said about it, and an error that ends the run.

    `is_complete` is False if a row is missing because it harmed its worker.
    """

    rows: Sequence[Row] = ()
    skipped: Sequence[str] = ()
    doubts: Sequence[str] = ()
    error: WhyformerError | None = None
    is_complete: bool = True


@dataclass(frozen=True)
class ExplainTask:
    """Explains windows of rows.

    Args:
        model: The model, or its name if a worker is to load it.
        weights: The fingerprint of the model; a worker that loads another one refuses.
        settings: Keywords of `explain`.
        labelled: Whether the target of a row is its label.
    """

    model: Loaded | str
    weights: str
    settings: Mapping[str, Any]
    labelled: bool = False

    def open(self) -> Work:
        """Load the model; return the function from a window to its scores."""
        if isinstance(self.model, Loaded):
            return partial(explain_window, self.model, self.settings, self.labelled)
        loaded = load_again(self.model, self.weights)
        return partial(explain_window, loaded, self.settings, self.labelled)


def explain_window(
    loaded: Loaded, settings: Mapping[str, Any], labelled: bool, window: Window
) -> WindowScores:
    """Return the scores of the rows that can be explained, in their order."""
    more = {"target": iter([one.label for one in window.samples])} if labelled else {}
    rows = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SkippedWarning)
        warnings.simplefilter("always", TrustWarning)
        try:
            for found in whyformer.explain(iter(window.samples), loaded, **{**settings, **more}):
                place = found.provenance["index"]
                rows.append(score_row(window.samples[place], window.start + place, found))
        except WhyformerError as error:
            return WindowScores(error=error)
    return WindowScores(
        rows,
        [str(one.message) for one in caught if issubclass(one.category, SkippedWarning)],
        [str(one.message) for one in caught if issubclass(one.category, TrustWarning)],
    )
