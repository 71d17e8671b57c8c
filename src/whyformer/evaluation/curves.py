"""Mean curves of the metrics with their bootstrap bands, as data and as charts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from whyformer.errors import InputError
from whyformer.evaluation.formatting import decimals_for, number_text, visible
from whyformer.evaluation.results import ResultKey, Results
from whyformer.evaluation.summary import bootstrap_of, with_metric_settings
from whyformer.render.charts.line_chart import Line, LineChart
from whyformer.render.charts.line_picture import save_lines
from whyformer.statistics.bootstrap import Bootstrap, Resamples


@dataclass(frozen=True)
class Curves:
    """The curves of all methods by one metric and one target."""

    target: str
    metric: str
    steps: tuple[float, ...]
    lines: tuple[Line, ...]

    @property
    def places(self) -> int | None:
        """The number of decimals to write; None for powers of ten."""
        return decimals_for(max((abs(v) for line in self.lines for v in line.finite), default=0.0))


def curves(
    results: Results, metric: str, target: str, how: Bootstrap | None = None
) -> Curves | None:
    """Return the curves of one metric, or None if it has none."""
    run, redraws = with_metric_settings(results), Resamples(how or bootstrap_of(results))
    lines, steps = [], None
    for method in run.methods:
        score = run.score(ResultKey(method, target, metric))
        if score is not None and score.curve is not None and score.steps:
            steps = score.steps
            lines.append(_curve(method, score.curve, redraws))
    return None if steps is None else Curves(target, metric, steps, tuple(lines))


def _curve(method: str, curve: Tensor, redraws: Resamples) -> Line:
    kept = curve[curve.isfinite().all(1)]
    if not len(kept):
        nothing = (math.nan,) * curve.shape[1]
        return Line(method, nothing, nothing, nothing)
    mean = tuple(kept.mean(0).tolist())
    if len(kept) < 2:
        nothing = (math.nan,) * curve.shape[1]
        return Line(method, mean, nothing, nothing)
    low, high = torch.quantile(redraws.means(kept), redraws.bootstrap.quantiles(), dim=0).tolist()
    return Line(method, mean, tuple(low), tuple(high))


def line_chart(found: Curves) -> LineChart:
    """Return the curves as a chart, with a description in words."""
    ends = [
        f"{visible(line.name)} from {number_text(line.mean[0], found.places)}"
        f" to {number_text(line.mean[-1], found.places)}"
        for line in found.lines
    ]
    is_share = min(found.steps) >= 0 and max(found.steps) <= 1
    return LineChart(
        title=f"Mean curve of {visible(found.metric)} for each method",
        description=f"From step {found.steps[0]:g} to {found.steps[-1]:g}: {'; '.join(ends)}.",
        x_label="share of the tokens" if is_share else "step",
        y_label=found.metric,
        steps=found.steps,
        lines=found.lines,
    )


def save_curves(results: Results, metric: str, target: str, path: str | Path) -> None:
    """Write the curves of one metric as a picture.

    Args:
        results: The results of an evaluation.
        metric: The name of a metric that has curves.
        target: The target whose curves to draw: "predicted" or "label".
        path: The file to write; its ending, .png or .svg, decides the format.

    Raises:
        InputError: If there is no such curve, or `path` cannot be written.
    """
    found = curves(results, metric, target)
    if found is None:
        raise InputError(
            f"metric {metric!r} has no curve for target {target!r} in this run",
            argument="metric",
            remedy="Choose a metric that has steps, and a target that was evaluated",
        )
    save_lines(line_chart(found), path)
