"""Randomisation: does the map change with the weights? (Adebayo et al., NeurIPS 2018, sec. 3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.metrics.agreement import Rank, rank_correlation
from whyformer.metrics.metric import metric
from whyformer.metrics.needs import RANDOMISED
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import find_stream


@metric(
    "randomisation",
    title="Randomisation: does the map change when the weights are randomised?",
    paper="Adebayo et al.: Sanity Checks for Saliency Maps, NeurIPS 2018",
    better="lower",
    range=(-1.0, 1.0),
    convention="Rank correlation of |scores| with those of the model with randomised weights.",
    needs=(RANDOMISED,),
)
def randomisation(
    attribution: Attribution,
    other: Attribution | Sequence[Attribution],
    *,
    stream: str | None = None,
    rank: Rank = "spearman",
    absolute: bool = True,
) -> Score:
    """Rank correlation of the map with those of randomised models, (batch,).

    `other` is the attribution of a randomised model, or a list with more and more layers
    randomised from the top: the curve then has one value for each, and the score is their mean.
    A map that is constant for all weights scores 1.
    """
    one = find_stream(attribution, stream)
    others = [other] if isinstance(other, Attribution) else list(other)
    if not others:
        raise InputError(
            "randomisation needs at least one attribution of a randomised model",
            argument="other",
        )
    curve = torch.stack(
        [rank_correlation(one, find_stream(each, one.name), rank, absolute) for each in others], 1
    )
    return Score(
        curve.mean(1),
        curve,
        tuple(float(i) for i in range(1, len(others) + 1)),
        f"{'tau-b' if rank == 'kendall' else rank} of the {'absolute ' if absolute else ''}scores"
        f" of '{one.name}' with those of {len(others)} randomised"
        f" model{'s, mean' if len(others) > 1 else ''}; padding excluded",
    )
