"""The order in which tokens are removed and how many at each step; ties are ordered by position."""

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
    """The stream with this name; the main stream if the name is None."""
    name = attribution.main if stream is None else stream
    if name not in attribution.streams:
        raise InputError(
            f"there is no stream {name!r}; this attribution has {', '.join(attribution.streams)}",
            argument="stream",
        )
    return attribution.streams[name]


def finite_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """The scores in at least single precision; raise InputError if some are not finite."""
    if not scores[mask].isfinite().all():
        raise InputError(
            "the attribution has scores that are not finite and cannot be ranked",
            argument="attribution",
            remedy="Explain in float32, or with another method",
        )
    return scores.detach().to(torch.promote_types(scores.dtype, torch.float32))


def removable(stream: Stream, keep: Tensor | None, special: Special) -> Tensor:
    """Which tokens may be removed, (batch, tokens): neither padding nor tokens in `keep`.

    Special tokens are those outside any word. Without word ids no token is special.
    """
    among = stream.mask
    if keep is not None:
        if keep.shape != among.shape:
            raise InputError(
                f"keep is {tuple(keep.shape)}; expected {tuple(among.shape)}", argument="keep"
            )
        among = among & ~keep.to(among.device).bool()
    if special == "keep" and stream.word_ids is not None:
        words = [[word is not None for word in sample] for sample in stream.word_ids]
        among = among & torch.tensor(words, dtype=torch.bool, device=among.device)
    return among


def rank_tokens(scores: Tensor, among: Tensor) -> Tensor:
    """The rank of each token, (batch, tokens): 0 for the highest score of those in `among`.

    Equal scores are ranked by position; tokens outside `among` come last.
    """
    queue = scores.masked_fill(~among, -torch.inf).argsort(dim=1, descending=True, stable=True)
    numbers = torch.arange(scores.shape[1], device=scores.device).expand_as(queue)
    return torch.empty_like(queue).scatter_(1, queue, numbers)


def top_share(places: Tensor, among: Tensor, share: float, rounding: Rounding) -> Tensor:
    """Which tokens are in the first share of those in `among`, (batch, tokens)."""
    total = share * among.sum(1, keepdim=True).double()
    # 0.7 * 10 is a little more than 7 in floating point, (1 - 0.9) * 10 a little less than 1.
    count = (total + 1e-6).floor() if rounding == "down" else (total - 1e-6).ceil()
    return (places < count) & among


def valid_shares(steps: Iterable[float], what: str = "steps") -> tuple[float, ...]:
    """The shares as floats; raise OptionError unless they rise and lie between 0 and 1."""
    shares = tuple(float(step) for step in steps)
    rising = all(a < b for a, b in pairwise(shares))
    if not shares or not rising or shares[0] < 0 or shares[-1] > 1:
        raise OptionError(
            f"{what}={shares}: expected rising shares between 0 and 1", argument="options"
        )
    return shares


def area_under(curve: Tensor, steps: tuple[float, ...], normalised: bool = True) -> Tensor:
    """Trapezoidal area under each curve, (batch,); `normalised` divides it by its width."""
    if len(steps) == 1:
        return curve[:, 0] if normalised else torch.zeros_like(curve[:, 0])
    found = torch.trapezoid(curve, torch.tensor(steps, dtype=curve.dtype, device=curve.device))
    return found / (steps[-1] - steps[0]) if normalised else found


def number_list(steps: Iterable[float]) -> str:
    """Numbers as a short text, separated by commas."""
    return ", ".join(f"{step:g}" for step in steps)
