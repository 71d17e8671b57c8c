"""Our figures with the paper's beside them, and every difference by name."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from whyformer.evaluation.results import Cell, Results
from whyformer.metrics.bootstrap import interval
from whyformer.metrics.ranks import spearman
from whyformer.reproduce.experiments import Experiment, Part
from whyformer.reproduce.reproduce import Outcome

CLASSES = {"predicted": "predicted class", "label": "true class"}
ARROWS = {"higher": "↑", "lower": "↓", "neither": ""}


def markdown(experiment: Experiment, outcomes: Sequence[Outcome]) -> str:
    """The experiment as Markdown: one table for each metric, columns by part and target."""
    lines = [f"## {experiment.name}", "", experiment.paper + ".", ""]
    done = [one for one in outcomes if one.results is not None]
    for metric in dict.fromkeys(m for one in done for m in one.results.metrics):  # type: ignore[union-attr]
        lines += [*_metric(metric, done), ""]
    lines += [*_curves(done)]
    lines += ["Differences from the paper:", ""]
    lines += [f"- {note}" for note in experiment.notes]
    for one in outcomes:
        lines += [f"- {one.part.title}: {note}" for note in _facts(one)]
    lacking = [f"- {one.part.title}: {one.missing}" for one in outcomes if one.missing]
    lacking += [f"- {said}" for said in experiment.missing]
    if lacking:
        lines += ["", "Not done, because it is not here:", "", *lacking]
    return "\n".join(lines).rstrip() + "\n"


def _metric(metric: str, outcomes: Sequence[Outcome]) -> list[str]:
    """One table: a row per method, ours and the paper's for every part that has the metric."""
    columns = [
        (one.part, one.results, target)
        for one in outcomes
        if one.results is not None and metric in one.results.metrics
        for target in one.results.targets
    ]
    first = columns[0][1]
    assert first is not None
    facts = first.settings["metrics"][metric]
    heads, rows = ["method"], dict.fromkeys(row.label for row in columns[0][0].rows)
    several = len({target for _, _, target in columns}) > 1
    for part, _, target in columns:
        name = part.title.split(" (")[0] + (f", {CLASSES[target]}" if several else "")
        heads += [name] + (["paper"] if _published(part, metric, target) else [])
    body = []
    for label in rows:
        cells = [label]
        for part, results, target in columns:
            assert results is not None
            cells.append(_ours(results, Cell(label, target, metric)))
            told = _published(part, metric, target)
            if told:
                cells.append(f"{told[label]:.3f}" if label in told else "")
        if any(cells[1:]):
            body.append(cells)
    order = _order(metric, columns)
    return [
        f"**{metric}** {ARROWS[facts['better']]}",
        "",
        f"| {' | '.join(heads)} |",
        f"| {' | '.join(['---'] * len(heads))} |",
        *(f"| {' | '.join(cells)} |" for cells in body),
        "",
        f"{_first_upper(facts['convention'])}. 95 % bootstrap intervals over samples.",
        *([order] if order else []),
    ]


def _ours(results: Results, cell: Cell) -> str:
    score = results.score(cell)
    if score is None:
        return ""
    low, high = interval(score)
    return f"{score.mean:.3f} [{low:.3f}, {high:.3f}]"


def _published(part: Part, metric: str, target: str) -> dict[str, float]:
    return dict(part.published.get(f"{metric}, {target}", part.published.get(metric, {})))


def _order(metric: str, columns: Sequence[tuple[Part, Results | None, str]]) -> str:
    """How far our order of the methods is the paper's, in a sentence; nothing without figures."""
    said = []
    for part, results, target in columns:
        told = _published(part, metric, target)
        scores = {k: results.score(Cell(k, target, metric)) for k in told} if results else {}
        known = [k for k, score in scores.items() if score is not None]
        if len(known) > 2:
            ours = torch.tensor([[scores[k].mean for k in known]]).double()  # type: ignore[union-attr]
            theirs = torch.tensor([[told[k] for k in known]]).double()
            rank = float(spearman(ours, theirs, torch.ones_like(ours, dtype=torch.bool)))
            name = part.title.split(" (")[0]
            also = f", {CLASSES[target]}" if len(columns) > 1 and len(part.targets) > 1 else ""
            said.append(f"{name}{also} {rank:.2f}")
    listed = "; ".join(said)
    return (
        f"Rank correlation of our order of the methods with the paper's: {listed}." if said else ""
    )


def _curves(outcomes: Sequence[Outcome]) -> list[str]:
    """The value at every k, where a metric is a mean over some k."""
    lines: list[str] = []
    for one in outcomes:
        results = one.results
        if results is None or "token_f1" not in results.metrics:
            continue
        for target in results.targets:
            steps = results.settings["metrics"]["token_f1"]["steps"]
            heads = ["method", *(f"k = {int(k)}" for k in steps)]
            lines += [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
            for label in results.methods:
                score = results.score(Cell(label, target, "token_f1"))
                if score is not None and score.curve is not None:
                    values = [f"{value:.3f}" for value in score.curve.mean(0).tolist()]
                    lines.append(f"| {' | '.join([label, *values])} |")
            lines.append("")
    return lines


def _facts(one: Outcome) -> list[str]:
    """What one part was done with."""
    if one.results is None:
        return []
    count = one.results.settings["data"]["samples"]
    said = f"{count} samples, model {one.model}"
    if one.accuracy is not None:
        said += f" ({100 * one.accuracy:.1f} % right)"
    return ["; ".join([said, *one.differences])]


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
