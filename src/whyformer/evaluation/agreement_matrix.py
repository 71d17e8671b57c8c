"""The matrix of how much methods agree with each other, from metrics named agreement/<method>."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whyformer.evaluation.summary import MethodSummary, MetricSummary

AGREEING = "agreement"
AGREEMENT = f"{AGREEING}/"  # prefix of the metrics that compare a method with another


def split_agreement(
    figures: Sequence[MetricSummary], target: str
) -> tuple[list[MetricSummary], list[MetricSummary]]:
    """The summaries of one target: of metrics of one method, and of agreement between methods."""
    here = [figure for figure in figures if figure.target == target]
    alone = [figure for figure in here if not figure.metric.startswith(AGREEMENT)]
    return alone, [figure for figure in here if figure.metric.startswith(AGREEMENT)]


@dataclass(frozen=True)
class AgreementMatrix:
    """Methods by methods: the mean agreement of their attributions."""

    names: tuple[str, ...]
    # None on the diagonal, and for pairs that were not compared.
    rows: tuple[tuple[MethodSummary | None, ...], ...]


def agreement_matrix(figures: Sequence[MetricSummary]) -> AgreementMatrix:
    """The matrix from the summaries of agreement/<other>; a pair measured once fills both cells."""
    found = {
        (row.method, figure.metric.removeprefix(AGREEMENT)): row
        for figure in figures
        for row in figure.rows
    }
    names = tuple(dict.fromkeys(name for pair in found for name in pair))
    # In the order of the run: measured methods, then those that were only compared with.
    measured = tuple(dict.fromkeys(one for one, _ in found))
    names = (*measured, *(name for name in names if name not in measured))
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
