"""Are the scores numbers, and do they tell tokens apart?"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Reason, Stream, Trust
from whyformer.attribution.trust import merge_trust

# Object queries start as zeros, so that most methods give them nothing.
_ZERO_BY_DESIGN = frozenset({"queries"})
_PASSED = Reason("values", "ok", "All scores are finite, and they differ.")


def value_reasons(attribution: Attribution) -> tuple[Reason, ...]:
    """Return a reason for each stream with NaN or infinite scores, or with equal scores.

    A stream whose scores are all equal is a warning if no other stream has more to tell.
    """
    ranges = {name: _ranges(stream) for name, stream in attribution.streams.items()}
    relative = 8 * torch.finfo(attribution.scores.dtype).eps
    parts = []
    for sample in range(len(attribution)):
        flat, varied, reasons = [], False, []
        for name, rows in ranges.items():
            low, high, count = rows[sample]
            if count and not (math.isfinite(low) and math.isfinite(high)):
                text = f"Stream '{name}' has scores that are NaN or infinite."
                reasons.append(Reason("values", "warning", text, (name,), math.inf))
            elif name in _ZERO_BY_DESIGN and low == high == 0:
                continue
            elif count > 1 and high - low <= relative * max(abs(low), abs(high)):
                flat.append((name, high))
            else:
                varied = varied or count > 1
        for name, value in flat:
            text = f"All scores of stream '{name}' are {'equal' if value else '0'}."
            text += " They do not tell its tokens apart."
            reasons.append(Reason("values", "note" if varied else "warning", text, (name,)))
        parts.append((Trust(tuple(reasons or [_PASSED])), (sample,)))
    return merge_trust(parts).reasons


def _ranges(stream: Stream) -> list[tuple[float, float, int]]:
    """The lowest and highest score of each sample, NaN if there is one, and its tokens."""
    scores, mask = stream.scores.detach(), stream.mask.bool()
    if not scores.shape[1]:
        return [(0.0, 0.0, 0)] * len(scores)
    if mask.all():
        low, high = scores.aminmax(dim=1)
        return [(a, b, scores.shape[1]) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    low, high = _end(scores, mask, math.inf, 0), _end(scores, mask, -math.inf, 1)
    return list(zip(low.tolist(), high.tolist(), mask.sum(1).tolist(), strict=True))


def _end(scores: Tensor, mask: Tensor, fill: float, which: int) -> Tensor:
    return scores.masked_fill(~mask, fill).aminmax(dim=1)[which]
