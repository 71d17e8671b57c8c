"""The tables of a run, as Markdown and for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from whyformer.evaluation.agreement_matrix import (
    AGREEING,
    AGREEMENT,
    AgreementMatrix,
    agreement_matrix,
    split_agreement,
)
from whyformer.evaluation.formatting import (
    ALIKE,
    ARROWS,
    NOTHING,
    convention_text,
    count_text,
    failure_lines,
    interval_text,
    number_text,
    package_versions,
    run_facts,
    sample_count,
    setting_text,
    target_title,
    visible,
)
from whyformer.evaluation.results import Results
from whyformer.evaluation.summary import (
    MethodSummary,
    MetricSummary,
    bootstrap_of,
    summary,
)
from whyformer.render.terminal.wide_table import WideTable
from whyformer.statistics.bootstrap import Bootstrap

__all__ = ["MethodSummary", "MetricSummary", "markdown", "summary", "terminal_tables"]

BEST = "*"  # in a terminal, which may have no bold
GAP = 2  # characters between columns in a terminal
NO_ROWS = "Nothing was measured."
FAILURES = 20  # samples that are listed, at most


def markdown(results: Results, figures: Sequence[MetricSummary] | None = None) -> str:
    """Return the results as Markdown: a table per target, methods by metrics, with conventions.

    Args:
        results: The run.
        figures: Its summary, if there is one already.
    """
    figures = summary(results) if figures is None else figures
    parts = [_title(results)]
    for target in _targets(figures):
        parts.append(f"## {escape_markdown(target_title(target))}")
        measured, agreeing = split_agreement(figures, target)
        if measured:
            parts += [_table(measured), legend(measured[0].how), _conventions(measured)]
        if agreeing:
            parts += [
                "Agreement between methods, mean over the samples:",
                _agreement(agreement_matrix(agreeing)),
                _conventions(agreeing[:1]),
            ]
    if not figures:
        parts.append(NO_ROWS)
    parts.append(_failures(results))
    parts.append(_settings(results, figures))
    return "\n\n".join(part for part in parts if part) + "\n"


def _failures(results: Results) -> str:
    """The samples that could not be evaluated, as a list; empty if there are none."""
    lines = [f"- {escape_markdown(line)}" for line in failure_lines(results, FAILURES)]
    return "\n".join(["Samples that could not be evaluated:", "", *lines]) if lines else ""


def legend(how: Bootstrap, best: str = "**Bold**") -> str:
    """What the marks in a table of means stand for."""
    return (
        f"Mean and {100 * how.level:g} % interval. {best} is the best mean; {ALIKE} marks means"
        " that do not differ significantly from it."
    )


def metric_heading(figure: MetricSummary) -> str:
    """A metric's name, with an arrow in the better direction."""
    return f"{visible(figure.metric)} {ARROWS.get(figure.better, '')}".strip()


def cell_text(row: MethodSummary | None, decimals: int | None) -> str:
    """A mean and its interval, as in 0.873 [0.861, 0.885]."""
    if row is None:
        return NOTHING
    return f"{number_text(row.mean, decimals)} {interval_text(row.low, row.high, decimals)}".strip()


def _targets(figures: Sequence[MetricSummary]) -> list[str]:
    return list(dict.fromkeys(figure.target for figure in figures))


def _methods(figures: Sequence[MetricSummary]) -> list[str]:
    return list(dict.fromkeys(row.method for figure in figures for row in figure.rows))


# -- Markdown --------------------------------------------------------------------------------

_MARKUP = re.compile(r"[\\`*\[\]|~#!$]|(?<![^\W_])_|_(?![^\W_])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape_markdown(text: object) -> str:
    """The text escaped for Markdown, inside and outside of tables."""
    plain = _MARKUP.sub(lambda sign: "\\" + sign[0], visible(text))
    return "".join(_ENTITIES.get(character, character) for character in plain)


def _grid(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + "---|" + "---:|" * (len(rows[0]) - 1), *body])


def _table(figures: Sequence[MetricSummary]) -> str:
    heads = ["method", *(escape_markdown(metric_heading(figure)) for figure in figures)]
    rows = [
        [escape_markdown(method), *(_cell(figure, method) for figure in figures)]
        for method in _methods(figures)
    ]
    return _grid([heads, *rows])


def _cell(figure: MetricSummary, method: str) -> str:
    row = figure.by_method.get(method)
    # The brackets of an interval are no link: no (address) follows them.
    text = cell_text(row, figure.places)
    if row is None:
        return text
    return f"**{text}**" if row.best else f"{text} {ALIKE}" if row.alike else text


def _agreement(matrix: AgreementMatrix) -> str:
    rows = [
        [escape_markdown(name), *(number_text(row.mean, 2) if row else NOTHING for row in line)]
        for name, line in zip(matrix.names, matrix.rows, strict=True)
    ]
    return _grid([["", *map(escape_markdown, matrix.names)], *rows])


def _conventions(figures: Sequence[MetricSummary]) -> str:
    lines = []
    for figure in figures:
        name = AGREEING if figure.metric.startswith(AGREEMENT) else figure.metric
        parts = [
            escape_markdown(convention_text(figure.known)).rstrip(".")
            or escape_markdown(figure.title)
        ]
        if figure.better != "neither":
            parts.append(f"{figure.better} is better")
        parts.append(_sizes(figure))
        lines.append(f"- {escape_markdown(name)}: {'; '.join(parts)}.")
    return "\n".join(lines)


def _sizes(figure: MetricSummary) -> str:
    """How many samples count: one number if it is the same for all methods, else a range."""
    sizes = sorted({row.n for row in figure.rows})
    return (
        count_text(sizes[0], "sample") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} samples"
    )


def _title(results: Results) -> str:
    known = dict(run_facts(results))
    about = known.get("model")
    return f"# Evaluation of {escape_markdown(about)}" if about else "# Evaluation"


def _settings(results: Results, figures: Sequence[MetricSummary]) -> str:
    how = figures[0].how if figures else bootstrap_of(results)
    known = [f"{name}: {escape_markdown(value)}" for name, value in run_facts(results)]
    lines = [
        "; ".join(known) + "." if known else "",
        interval_note(how),
        "; ".join(
            f"{escape_markdown(name)} {escape_markdown(value)}"
            for name, value in package_versions(results)
        ),
    ]
    command = results.settings.get("command")
    if command:
        lines.append("Command: " + _code(setting_text(command)))
    return "\n\n".join(line for line in lines if line)


def _code(text: str) -> str:
    """A code span that no backtick in the text can end; escaped text if it could be HTML."""
    if any(sign in text for sign in _ENTITIES):
        return escape_markdown(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def interval_note(how: Bootstrap) -> str:
    """How the intervals were computed."""
    return (
        f"Intervals: {100 * how.level:g} % percentile bootstrap over the samples, {how.draws}"
        f" draws, seed {how.seed}. Methods are compared with the best by paired differences,"
        " without correction for multiple comparisons."
    )


# -- terminal --------------------------------------------------------------------------------


def terminal_tables(
    results: Results, figures: Sequence[MetricSummary] | None = None
) -> RenderableType:
    """Return the tables for a rich console; metrics that do not fit in its width go below.

    Args:
        results: The run.
        figures: Its summary, if there is one already.
    """
    figures = summary(results) if figures is None else figures
    if not figures:
        return Text(NO_ROWS)
    known = dict(run_facts(results))
    title = [known[name] for name in ("model", "data") if name in known]
    parts: list[RenderableType] = [
        Text(" on ".join(title) or "Evaluation", style="bold"),
        Text(count_text(sample_count(results), "sample")),
    ]
    for target in _targets(figures):
        measured, agreeing = split_agreement(figures, target)
        parts += [Text(f"\n{target_title(target)}", style="underline")]
        if measured:
            parts.append(_FittingColumns(tuple(measured)))
        if agreeing:
            parts.append(_terminal_agreement(agreement_matrix(agreeing)))
    parts.append(Text("\n" + legend(figures[0].how, BEST)))
    return Group(*parts)


@dataclass(frozen=True)
class _FittingColumns:
    """The metrics in as many tables as the width of the console requires."""

    figures: tuple[MetricSummary, ...]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        methods = _methods(self.figures)
        first = max(len(visible(method)) for method in methods) + GAP
        rest = list(self.figures)
        while rest:
            taken, used = [rest.pop(0)], first
            used += _width(taken[0])
            while rest and used + _width(rest[0]) <= options.max_width:
                used += _width(rest[0])
                taken.append(rest.pop(0))
            yield _columns(taken, methods)
            if rest:
                yield Text("")


def _width(figure: MetricSummary) -> int:
    cells = [len(cell_text(row, figure.places)) + 2 for row in figure.rows]
    return max([len(metric_heading(figure)), *cells]) + GAP


def _columns(figures: Sequence[MetricSummary], methods: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    table.add_column("method", no_wrap=True)
    for figure in figures:
        table.add_column(Text(metric_heading(figure)), no_wrap=True)
    for method in methods:
        found = [(figure, figure.by_method.get(method)) for figure in figures]
        table.add_row(
            Text(visible(method)), *(_terminal_cell(figure, row) for figure, row in found)
        )
    return table


def _terminal_cell(figure: MetricSummary, row: MethodSummary | None) -> Text:
    text = Text(cell_text(row, figure.places), style="bold" if row and row.best else "")
    return text.append(f" {BEST}" if row and row.best else f" {ALIKE}" if row and row.alike else "")


def _terminal_agreement(matrix: AgreementMatrix) -> WideTable:
    rows = [
        [visible(name), *(number_text(row.mean, 2) if row else NOTHING for row in line)]
        for name, line in zip(matrix.names, matrix.rows, strict=True)
    ]
    numeric = [False, *([True] * len(matrix.names))]
    return WideTable("\nagreement between methods", ["", *matrix.names], rows, numeric)
