"""How far a mean over samples can be trusted: percentile bootstrap (Efron, 1979)."""

from __future__ import annotations

import torch

from whyformer.errors import InputError, OptionError
from whyformer.metrics.score import Score

# Samples that are drawn at once: 1000 draws of 1000 samples take 8 MB per part.
AT_ONCE = 1_000_000


def interval(
    score: Score, *, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """(low, high) between which that share of the means of redrawn samples lies.

    The same samples and seed give the same interval. Draws in which nothing counts are left out.
    """
    if not 0 < level < 1 or draws < 1:
        raise OptionError(f"level={level!r} is between 0 and 1, draws={draws!r} at least 1")
    if not len(score):
        raise InputError("a score of no samples has no interval")
    generator = torch.Generator().manual_seed(seed)
    samples = torch.randint(len(score), (draws, len(score)), generator=generator)
    some = max(1, AT_ONCE // len(score))
    device = score.values.device
    means = torch.cat([score.means(part.to(device)) for part in samples.split(some)])
    means = means[means.isfinite()]
    if not len(means):
        return float("nan"), float("nan")
    ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=means.dtype, device=device)
    low, high = torch.quantile(means, ends).tolist()
    return low, high
