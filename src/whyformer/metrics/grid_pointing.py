"""Grid pointing game: how much relevance lies in the right cell? (Böhle et al., CVPR 2021)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.errors import InputError
from whyformer.metrics.metric import metric
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import find_stream, finite_scores


@metric(
    "grid_pointing",
    title="Grid pointing: how much of the positive relevance lies inside the right cell?",
    paper="Böhle, Fritz, Schiele: Convolutional Dynamic Alignment Networks, CVPR 2021",
    better="higher",
    range=(0.0, 1.0),
    convention="Share of the positive scores inside the region; 0.25 by chance in a 2x2 grid.",
)
def grid_pointing(attribution: Attribution, regions: Tensor, *, stream: str | None = None) -> Score:
    """Share of the positive relevance inside the region, (batch,).

    Nothing is upsampled: a patch that lies half in the region counts half. A sample without
    positive scores has 0; a sample without a region does not count.
    """
    one = find_stream(attribution, stream)
    scores = finite_scores(one.scores, one.mask).double()
    positive = scores.clamp(min=0).masked_fill(~one.mask, 0)
    inside = _inside(one, regions.to(scores.device).double())
    total = positive.sum(1)
    values = (positive * inside).sum(1) / total.where(total > 0, 1)
    some = (inside * one.mask).any(1)
    return Score(
        values,
        convention=f"share of the positive scores of '{one.name}' inside the region, patches at"
        " its edge by their share",
        shares=(values.unsqueeze(1), some.double().unsqueeze(1)),
    )


def _inside(stream: Stream, regions: Tensor) -> Tensor:
    """The share of each token that lies in the region, (batch, tokens)."""
    if regions.shape == stream.scores.shape:
        return regions
    if stream.grid is None or regions.ndim != 3 or len(regions) != len(stream.scores):
        raise InputError(
            f"regions are {tuple(regions.shape)}; expected {tuple(stream.scores.shape)}, one per"
            f" token{'' if stream.grid is None else ', or (batch, height, width)'}",
            argument="regions",
        )
    return F.adaptive_avg_pool2d(regions.unsqueeze(1), stream.grid).flatten(1)
