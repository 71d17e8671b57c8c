"""Agreement of two attributions of the same inputs, by rank (Spearman 1904, Kendall 1945)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.errors import InputError
from whyformer.metrics.metric import metric
from whyformer.metrics.needs import OTHER_METHOD
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import find_stream, finite_scores
from whyformer.statistics.ranks import kendall, spearman

Rank = Literal["spearman", "kendall"]


@metric(
    "agreement",
    title="Agreement: do two attributions rank the tokens alike?",
    paper="Spearman 1904; Kendall 1945 (tau-b)",
    better="neither",
    range=(-1.0, 1.0),
    convention="Rank correlation of the scores of two attributions, padding excluded.",
    needs=(OTHER_METHOD,),
)
def agreement(
    attribution: Attribution,
    other: Attribution,
    *,
    stream: str | None = None,
    rank: Rank = "spearman",
    absolute: bool = False,
) -> Score:
    """Rank correlation of two attributions, (batch,); `parts` has it for every common stream.

    Two constant maps give 1; a constant map and one that varies give 0.
    """
    one = find_stream(attribution, stream)
    find_stream(other, one.name)  # raise if the other attribution lacks it
    parts = {
        name: rank_correlation(here, other.streams[name], rank, absolute)
        for name, here in attribution.streams.items()
        if name in other.streams
    }
    return Score(
        parts[one.name],
        convention=f"{'tau-b' if rank == 'kendall' else rank} of the"
        f" {'absolute ' if absolute else ''}scores of '{one.name}', equal scores share a rank,"
        " padding excluded",
        parts=parts,
    )


def rank_correlation(left: Stream, right: Stream, rank: Rank, absolute: bool) -> Tensor:
    """Rank correlation of one stream's scores in two attributions, (batch,)."""
    mask = left.mask
    if left.scores.shape != right.scores.shape or not mask.equal(right.mask.to(mask.device)):
        raise InputError(
            f"the attributions are not of the same inputs: stream '{left.name}' has tokens"
            f" {tuple(left.scores.shape)} and {tuple(right.scores.shape)}, or other padding",
            argument="other",
            remedy="Pass two attributions of the same batch",
        )
    first, second = (finite_scores(s.scores.to(mask.device), mask).double() for s in (left, right))
    if absolute:
        first, second = first.abs(), second.abs()
    return (kendall if rank == "kendall" else spearman)(first, second, mask)
