"""The pointing game: does the highest score lie on the object? (Zhang et al., IJCV 2018, 5.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.errors import InputError, OptionError
from whyformer.metrics.metric import metric
from whyformer.metrics.pixels import pixel_map
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import find_stream, finite_scores


@metric(
    "pointing_game",
    title="Pointing game: does the highest score lie on the object?",
    paper="Zhang et al.: Top-Down Neural Attention by Excitation Backprop, IJCV 2018",
    better="higher",
    range=(0.0, 1.0),
    convention="1 if the highest score lies on the object or within 15 pixels of it, else 0.",
)
def pointing_game(
    attribution: Attribution,
    regions: Tensor,
    keep: Tensor | None = None,
    *,
    stream: str | None = None,
    tolerance: int = 15,
) -> Score:
    """1 for a hit and 0 for a miss, (batch,); a sample without an object does not count.

    Regions of pixels are compared with the upsampled map, regions of tokens with the scores.
    `tolerance` applies to pixels only; `keep` excludes tokens, and applies to tokens only.
    """
    one = find_stream(attribution, stream)
    if tolerance < 0:
        raise OptionError(
            f"tolerance={tolerance}: expected a number of pixels, 0 or more", argument="options"
        )
    marked = regions.to(one.scores.device).bool()
    if marked.shape == one.scores.shape:
        among = one.mask if keep is None else one.mask & ~keep.to(one.mask.device).bool()
        scores, marked, how = (
            finite_scores(one.scores, one.mask),
            marked & among,
            "the highest token",
        )
        where = _highest(scores, among)
        hits = marked.gather(1, where).squeeze(1)
    elif marked.ndim == 3 and len(marked) == len(one.scores):
        height, width = marked.shape[1:]
        scores, among = (part.flatten(1) for part in pixel_map(one, (height, width)))
        marked = marked.flatten(1) & among
        how = f"the highest pixel of the upsampled map, or one within {tolerance} pixels of it"
        where = _highest(scores, among)
        pixel = torch.arange(height * width, device=where.device)
        distance = (pixel // width - where // width).square() + (pixel % width - where % width) ** 2
        hits = (marked & (distance <= tolerance**2)).any(1)
    else:
        raise InputError(
            f"regions are {tuple(marked.shape)}; expected {tuple(one.scores.shape)}, one per token,"
            f" or ({len(one.scores)}, height, width)",
            argument="regions",
        )
    some = marked.any(1)
    values = (hits & some).double()
    return Score(
        values,
        convention=f"1 if {how} lies in the region of '{one.name}', ties by position",
        shares=(values.unsqueeze(1), some.double().unsqueeze(1)),
    )


def _highest(scores: Tensor, among: Tensor) -> Tensor:
    """Index of the highest score, the first if several are equal, (batch, 1)."""
    ranked = scores.masked_fill(~among, -torch.inf)
    return (ranked == ranked.amax(1, keepdim=True)).int().argmax(1, keepdim=True)
