"""Conclusions over the parts of an experiment: which methods are beaten, where and by whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whyformer.evaluation.formatting import ARROWS, number_text
from whyformer.evaluation.paired_comparison import (
    SIGNIFICANT,
    MeasureConclusion,
    MethodStanding,
    TaskConclusion,
    conclude,
    standings,
)
from whyformer.evaluation.results import Results
from whyformer.evaluation.tables import escape_markdown
from whyformer.metrics import metrics
from whyformer.reproduce.reproduce import Outcome
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.statistics.paired import PAIRED


@dataclass(frozen=True)
class Conclusions:
    """What an experiment says about its methods: task by task, and over all tasks."""

    tasks: tuple[TaskConclusion, ...]
    standings: tuple[MethodStanding, ...]
    bootstrap: Bootstrap

    def markdown(self) -> str:
        """Return both tables, with how they were computed."""
        if not self.tasks:
            return "No part has two methods and two samples to compare.\n"
        lines = ["### Conclusions", "", *_standing_lines(self.standings), ""]
        lines += [
            "A method beats another on a task if it is significantly better by some measure and"
            " significantly worse by none. *Rival*: the method that beats it on the most tasks."
            f" Paired bootstrap over samples, {self.bootstrap.draws} draws, p < {SIGNIFICANT:g}"
            " after Holm's correction for all pairs of methods of a measure.",
            "",
            *_task_lines(self.tasks),
        ]
        return "\n".join(lines) + "\n"


def draw_conclusions(outcomes: Sequence[Outcome], bootstrap: Bootstrap = PAIRED) -> Conclusions:
    """Return the conclusions over the parts that have results.

    Metrics that apply only to methods with a sign, such as conservation, are left out: by them a
    method without a sign could neither win nor lose.

    Args:
        outcomes: The outcomes of an experiment. Rows of the same method must have the same label
            in all parts.
        bootstrap: How many draws, and their seed.
    """
    found = [
        TaskConclusion(
            one.part.title.split(" (")[0],
            tuple(conclude(one.results, bootstrap, _signed_metrics(one.results))),
        )
        for one in outcomes
        if one.results is not None
    ]
    tasks = tuple(task for task in found if task.measures)
    return Conclusions(tasks, tuple(standings(tasks)), bootstrap)


def _signed_metrics(results: Results) -> list[str]:
    """The measures of metrics that only apply to scores with a sign."""
    known = results.settings["metrics"]
    names = {label: str(known.get(label, {}).get("metric", label)) for label in results.metrics}
    return [label for label, name in names.items() if name in metrics and metrics[name].signed]


def _standing_lines(rows: Sequence[MethodStanding]) -> list[str]:
    """One row per method, the least often beaten first."""
    lines = [
        "| method | tasks | beaten on | rival: beats it on | best of measures"
        " | level with the best | mean rank |",
        "|---|---:|---|---|---:|---:|---:|",
    ]
    for row in rows:
        rival = f"{escape_markdown(row.rival)}: {_names(row.rival_tasks)}" if row.rival else ""
        cells = (
            escape_markdown(row.method),
            str(row.tasks),
            _names(row.beaten_on),
            rival,
            f"{row.first} of {row.measures}",
            f"{row.level} of {row.measures}",
            number_text(row.mean_rank, 1),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _names(tasks: Sequence[str]) -> str:
    """How many tasks, and which."""
    return f"{len(tasks)} ({escape_markdown(', '.join(tasks))})" if tasks else "0"


def _task_lines(tasks: Sequence[TaskConclusion]) -> list[str]:
    """One row per task and measure: the best method, and those level with it."""
    lines = [
        "| task | measure | samples | best | not significantly worse | significantly worse |",
        "|---|---|---:|---|---|---:|",
    ]
    return lines + [_task_line(task.task, one) for task in tasks for one in task.measures]


def _task_line(task: str, one: MeasureConclusion) -> str:
    others = [name for name in one.level_with_best if name != one.best]
    measure = f"{one.metric}{', true class' if one.target == 'label' else ''} {ARROWS[one.better]}"
    cells = (
        escape_markdown(task),
        escape_markdown(measure),
        str(one.samples),
        f"{escape_markdown(one.best)} {number_text(one.means[one.best])}",
        escape_markdown(", ".join(others)) or "none",
        f"{len(one.means) - len(one.level_with_best)} of {len(one.means) - 1}",
    )
    return f"| {' | '.join(cells)} |"
