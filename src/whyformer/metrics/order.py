"""Which tokens come first, and how many of them: the same for every metric, ties by position."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.errors import InputError, OptionError

Special = Literal["keep", "remove"]
Rounding = Literal["down", "up"]


def find_stream(attribution: Attribution, stream: str | None) -> Stream:
    """The stream of that name, the main one where none is named."""
    name = attribution.main if stream is None else stream
    if name not in attribution.streams:
        raise InputError(
            f"there is no stream {name!r}; this attribution has {', '.join(attribution.streams)}"
        )
    return attribution.streams[name]


def finite_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """The scores in at least single precision; refuses those that cannot be put in order."""
    if not scores[mask].isfinite().all():
        raise InputError("the attribution has scores that are not finite: they have no order")
    return scores.detach().to(torch.promote_types(scores.dtype, torch.float32))


def removable(stream: Stream, keep: Tensor | None, special: Special) -> Tensor:
    """Which tokens may be taken away, (batch, tokens): no padding, and nothing that is kept.

    Special tokens are those that are part of no word; where words are not known there are none.
    """
    among = stream.mask
    if keep is not None:
        if keep.shape != among.shape:
            raise InputError(f"keep is {tuple(keep.shape)}; expected {tuple(among.shape)}")
        among = among & ~keep.to(among.device).bool()
    if special == "keep" and stream.word_ids is not None:
        words = [[word is not None for word in sample] for sample in stream.word_ids]
        among = among & torch.tensor(words, dtype=torch.bool, device=among.device)
    return among


def rank_tokens(scores: Tensor, among: Tensor) -> Tensor:
    """Each token's place in the queue, (batch, tokens): 0 for the highest of those among.

    Equal scores queue by position; those not among come last.
    """
    queue = scores.masked_fill(~among, -torch.inf).argsort(dim=1, descending=True, stable=True)
    numbers = torch.arange(scores.shape[1], device=scores.device).expand_as(queue)
    return torch.empty_like(queue).scatter_(1, queue, numbers)


def top_share(places: Tensor, among: Tensor, share: float, rounding: Rounding) -> Tensor:
    """Which tokens make up the first share of those among, (batch, tokens)."""
    total = share * among.sum(1, keepdim=True).double()
    # 0.7 * 10 is a little more than 7 in floating point, (1 - 0.9) * 10 a little less than 1.
    count = (total + 1e-6).floor() if rounding == "down" else (total - 1e-6).ceil()
    return (places < count) & among


def valid_shares(steps: Iterable[float], what: str = "steps") -> tuple[float, ...]:
    """Shares between 0 and 1, each larger than the one before."""
    shares = tuple(float(step) for step in steps)
    rising = all(a < b for a, b in pairwise(shares))
    if not shares or not rising or shares[0] < 0 or shares[-1] > 1:
        raise OptionError(f"{what}={shares}: expected rising shares between 0 and 1")
    return shares


def area_under(curve: Tensor, steps: tuple[float, ...], normalised: bool = True) -> Tensor:
    """Area under each curve by trapezoids, (batch,); over its width: the curve's mean height."""
    if len(steps) == 1:
        return curve[:, 0] if normalised else torch.zeros_like(curve[:, 0])
    found = torch.trapezoid(curve, torch.tensor(steps, dtype=curve.dtype, device=curve.device))
    return found / (steps[-1] - steps[0]) if normalised else found


def number_list(steps: Iterable[float]) -> str:
    """Shares as they are printed."""
    return ", ".join(f"{step:g}" for step in steps)
