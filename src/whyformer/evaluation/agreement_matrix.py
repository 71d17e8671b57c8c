"""Agreement of methods with each other, as a matrix: metrics that are named after a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whyformer.evaluation.summary import MethodSummary, MetricSummary

AGREEING = "agreement"
AGREEMENT = f"{AGREEING}/"  # metrics of this name measure a method against another one


def split_agreement(
    figures: Sequence[MetricSummary], target: str
) -> tuple[list[MetricSummary], list[MetricSummary]]:
    """The figures of one explained class: those of a method by itself, and of one with another."""
    here = [figure for figure in figures if figure.target == target]
    alone = [figure for figure in here if not figure.metric.startswith(AGREEMENT)]
    return alone, [figure for figure in here if figure.metric.startswith(AGREEMENT)]


@dataclass(frozen=True)
class AgreementMatrix:
    """Methods by methods: how much the one's attributions agree with the other's."""

    names: tuple[str, ...]
    rows: tuple[
        tuple[MethodSummary | None, ...], ...
    ]  # None where a method meets itself, or nothing


def agreement_matrix(figures: Sequence[MetricSummary]) -> AgreementMatrix:
    """The matrix of figures named agreement/<other>; what was measured one way holds both ways."""
    found = {
        (row.method, figure.metric.removeprefix(AGREEMENT)): row
        for figure in figures
        for row in figure.rows
    }
    names = tuple(dict.fromkeys(name for pair in found for name in pair))
    # The order of the run: the methods that were measured, then those only compared with.
    asked = tuple(dict.fromkeys(one for one, _ in found))
    names = (*asked, *(name for name in names if name not in asked))
    return AgreementMatrix(
        names,
        tuple(
            tuple(
                None if one == other else found.get((one, other), found.get((other, one)))
                for other in names
            )
            for one in names
        ),
    )
