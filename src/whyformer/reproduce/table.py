"""Markdown tables of an experiment: our figures beside the paper's, and all differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from whyformer.evaluation.formatting import ARROWS, decimals_for, interval_text, number_text
from whyformer.evaluation.results import ResultKey, Results
from whyformer.evaluation.tables import escape_markdown
from whyformer.metrics import interval
from whyformer.reproduce.experiment import Experiment, ExperimentPart
from whyformer.reproduce.reproduce import Outcome
from whyformer.statistics.ranks import spearman

CLASSES = {"predicted": "predicted class", "label": "true class"}


@dataclass(frozen=True)
class FigureColumn:
    """Our figures and the paper's, for one part, one explained class and one metric."""

    part: ExperimentPart
    results: Results
    target: str
    metric: str

    @property
    def known(self) -> Mapping[str, Any]:
        """The settings of the metric in our run."""
        found: Mapping[str, Any] = self.results.settings["metrics"][self.metric]
        return found

    @property
    def published(self) -> Mapping[str, float]:
        """The paper's figures by row; empty if it has none."""
        figures = self.part.published
        return figures.get(f"{self.metric}, {self.target}", figures.get(self.metric, {}))

    def mean(self, label: str) -> float | None:
        """Return our figure; None if nothing was measured."""
        score = self.results.score(ResultKey(label, self.target, self.metric))
        return score.mean if score is not None and math.isfinite(score.mean) else None

    def cell(self, label: str) -> str:
        """Return our figure with its interval as text; empty if the row was not run."""
        score = self.results.score(ResultKey(label, self.target, self.metric))
        if score is None:
            return ""
        between = interval_text(*interval(score), self.decimals)
        return f"{number_text(score.mean, self.decimals)} {between}".strip()

    def paper_cell(self, label: str) -> str:
        """Return the paper's figure as text; empty if it has none."""
        figure = self.published.get(label)
        return "" if figure is None else number_text(figure, self.decimals)

    @cached_property
    def decimals(self) -> int | None:
        """The decimals of all figures in this column."""
        means = [abs(mean) for label in self.results.methods if (mean := self.mean(label))]
        return decimals_for(max(means, default=0.0))


def markdown(experiment: Experiment, outcomes: Sequence[Outcome], across: int | None = None) -> str:
    """Return the experiment as Markdown: one table per metric, one column per part and class.

    `across` is the most columns in a table, for narrow terminals; all if None.
    """
    lines = [f"## {experiment.name}", "", experiment.paper + ".", ""]
    columns = [
        FigureColumn(one.part, one.results, target, metric)
        for one in outcomes
        if one.results is not None
        for metric in one.results.metrics
        for target in one.results.targets
    ]
    for metric in dict.fromkeys(column.metric for column in columns):
        some = [column for column in columns if column.metric == metric]
        lines += [f"**{metric}** {ARROWS.get(some[0].known['better'], '')}".strip(), ""]
        for start in range(0, len(some), across or len(some)):
            lines += [*_table(some[start : start + (across or len(some))], some), ""]
        lines += [*_conventions(some), "", *_order(some)]
    lines += [line for column in columns for line in _by_number(column)]
    lines += [f"{experiment.notes_title}:", ""]
    lines += [f"- {note}" for note in experiment.notes]
    lines += [
        f"- {escape_markdown(one.part.title)}: {_describe_outcome(one)}"
        for one in outcomes
        if one.results
    ]
    not_run = [
        f"- {escape_markdown(one.part.title)}: {escape_markdown(one.missing)}"
        for one in outcomes
        if one.missing
    ]
    not_run += [f"- {reason}" for reason in experiment.missing]
    if not_run:
        lines += ["", "Not run:", "", *not_run]
    return "\n".join(lines).rstrip() + "\n"


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return [head, f"| {' | '.join(['---'] * len(rows[0]))} |", *body]


def _title(column: FigureColumn, among: Sequence[FigureColumn]) -> str:
    """The name of the part, and the explained class if there are several."""
    several = len({other.target for other in among}) > 1
    name = column.part.title.split(" (")[0]
    return escape_markdown(f"{name}, {CLASSES[column.target]}" if several else name)


def _table(columns: Sequence[FigureColumn], among: Sequence[FigureColumn]) -> list[str]:
    """One row per method: our figure, and the paper's if it has one."""
    heads = ["method"]
    for column in columns:
        heads += [_title(column, among), *(["paper"] if column.published else [])]
    body = []
    for label in dict.fromkeys(row.label for column in columns for row in column.part.rows):
        ours = [column.cell(label) for column in columns]
        cells = [escape_markdown(label)]
        for column, cell in zip(columns, ours, strict=True):
            cells += [cell, *([column.paper_cell(label)] if column.published else [])]
        if any(ours):
            body.append(cells)
    return _grid([heads, *body])


def _conventions(columns: Sequence[FigureColumn]) -> list[str]:
    """How the metric was computed: one sentence for all parts, or one for each."""
    by_text: dict[str, list[str]] = {}
    for column in columns:
        text = escape_markdown(column.known["convention"]).rstrip(".") + "."
        by_text.setdefault(text, []).append(_title(column, columns))
    how = "95 % bootstrap intervals over samples."
    if len(by_text) == 1:
        return [f"{_capitalise(*by_text)} {how}"]
    return [*(f"- {', '.join(names)}: {text}" for text, names in by_text.items()), "", how]


def _order(columns: Sequence[FigureColumn]) -> list[str]:
    """The rank correlation of our figures with the paper's; empty if the paper has no figures."""
    correlations = []
    for column in columns:
        pairs = [(column.mean(label), value) for label, value in column.published.items()]
        both = [(ours, theirs) for ours, theirs in pairs if ours is not None]
        if len(both) > 2:
            ours, theirs = torch.tensor(both, dtype=torch.float64).T.unsqueeze(1)
            rank = float(spearman(ours, theirs, torch.ones_like(ours, dtype=torch.bool)))
            correlations.append(f"{_title(column, columns)} {number_text(rank, 2)}")
    heading = "Rank correlation of our order of the methods with the paper's"
    return [f"{heading}: {'; '.join(correlations)}.", ""] if correlations else []


def _by_number(column: FigureColumn) -> list[str]:
    """A table of the values at every k, for metrics that are a mean over k."""
    if column.metric != "token_f1":
        return []
    rows = [["method", *(f"k = {int(k)}" for k in column.known["steps"])]]
    for label in column.results.methods:
        score = column.results.score(ResultKey(label, column.target, column.metric))
        if score is not None and score.curve is not None:
            rows.append([escape_markdown(label), *map(number_text, score.curve.mean(0).tolist())])
    head = (
        f"{escape_markdown(column.part.title)}, {CLASSES[column.target]}, by the number of words k:"
    )
    return [head, "", *_grid(rows), ""]


def _describe_outcome(one: Outcome) -> str:
    """The samples, the model, and the remarks of one part."""
    assert one.results is not None
    summary = (
        f"{one.results.settings['data']['samples']} samples, model {escape_markdown(one.model)}"
    )
    if one.accuracy is not None:
        summary += f" (accuracy {100 * one.accuracy:.1f} %)"
    return "; ".join([summary, *map(escape_markdown, one.differences)])


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
