"""The methods by all measures together: each measure divided by its spread, higher is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whyformer.evaluation.paired_comparison import SIGNIFICANT, ComparedScores, compared_scores
from whyformer.evaluation.results import Results
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.statistics.paired import PairedDifference, holm, redraw

TARGET = "predicted"


@dataclass(frozen=True)
class Standing:
    """The methods after some samples, compared with the best by a paired bootstrap.

    `behind` is the total of the best minus that of a method, `p` its two-sided p after Holm's
    correction for all methods. The best itself is in neither.
    """

    samples: int
    totals: Mapping[str, float]
    best: str
    behind: Mapping[str, PairedDifference]
    p: Mapping[str, float]

    @property
    def worse(self) -> tuple[str, ...]:
        """The methods that are significantly worse than the best."""
        return tuple(label for label, p in self.p.items() if p < SIGNIFICANT)


def spreads(results: Results, methods: Sequence[str], measures: Sequence[str]) -> dict[str, float]:
    """The standard deviation of each measure over samples and methods; 1 if there is none."""
    found = {}
    for measure in measures:
        scores = _scores(results, methods, measure)
        deviation = float(torch.cat([score.values for score in scores.scores]).std(correction=0))
        found[measure] = deviation or 1.0
    return found


def stand(
    results: Results, methods: Sequence[str], scales: Mapping[str, float], bootstrap: Bootstrap
) -> Standing:
    """Return the standing of methods that have the same samples.

    Args:
        results: The rows so far.
        methods: The labels of at least two methods.
        scales: The spread of each measure.
        bootstrap: How many draws, and their seed.
    """
    scores = {measure: _scores(results, methods, measure) for measure in scales}
    parts = [
        (one.combine(), one.sign / (scales[measure] * len(scales)))
        for measure, one in scores.items()
    ]

    def total(weights: Tensor) -> Tensor:
        return torch.stack([combine(weights) * factor for combine, factor in parts]).sum(0)

    samples = len(next(iter(scores.values())).samples)
    drawn = redraw(total, samples, bootstrap)
    best = int(drawn.values.argmax())
    others = [i for i in range(len(methods)) if i != best]
    behind = {methods[i]: drawn.difference(best, i) for i in others}
    corrected = holm([difference.p for difference in behind.values()])
    totals = dict(zip(methods, drawn.values.tolist(), strict=True))
    p = dict(zip(behind, corrected, strict=True))
    return Standing(samples, totals, methods[best], behind, p)


def _scores(results: Results, methods: Sequence[str], measure: str) -> ComparedScores:
    found = compared_scores(results, methods, TARGET, measure)
    assert found is not None, measure  # measures have a direction, and there are two methods
    return found
