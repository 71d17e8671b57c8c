"""Relevancies between two streams, straight from the paper, slowly (Chefer et al., ICCV 2021).

One sample at a time, entry by entry where the paper has a sum; torch tensors are only the paper's
matrices here. t and i are the paper's text and image, or any two streams; i asks nothing of t in
an encoder-decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


def head_average(attention: Tensor, gradient: Tensor) -> Tensor:
    """Eq. 5: the mean over heads of (gradient x attention) without its negative part."""
    heads, queries, keys = attention.shape
    average = torch.zeros(queries, keys, dtype=torch.float64)
    for h in range(heads):
        for q in range(queries):
            for k in range(keys):
                product = float(gradient[h, q, k] * attention[h, q, k])
                average[q, k] += max(product, 0.0) / heads
    return average


def normalised(relevancy: Tensor) -> Tensor:
    """Eqs. 8 and 9: R minus identity, each row divided by its sum, plus identity."""
    size = len(relevancy)
    rows = torch.zeros(size, size, dtype=torch.float64)
    for q in range(size):
        beside = [float(relevancy[q, k]) - float(q == k) for k in range(size)]
        total = sum(beside)
        for k in range(size):
            rows[q, k] = (beside[k] / total if total else 0.0) + float(q == k)
    return rows


def product(left: Tensor, right: Tensor) -> Tensor:
    """The matrix product, by its definition."""
    found = torch.zeros(left.shape[0], right.shape[1], dtype=torch.float64)
    for q in range(left.shape[0]):
        for k in range(right.shape[1]):
            found[q, k] = sum(float(left[q, m] * right[m, k]) for m in range(left.shape[1]))
    return found


@dataclass
class Relevancies:
    """R^tt, R^ti, R^ii and R^it: tokens explain themselves before any layer (eqs. 1 and 2)."""

    sizes: dict[str, int]
    of: dict[tuple[str, str], Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for a, n in self.sizes.items():
            for b, m in self.sizes.items():
                start = torch.eye(n) if a == b else torch.zeros(n, m)
                self.of[a, b] = start.double()

    def self_attention(self, s: str, average: Tensor) -> None:
        """Eqs. 6 and 7: R^ss += A R^ss and R^sq += A R^sq."""
        for q in self.sizes:
            self.of[s, q] = self.of[s, q] + product(average, self.of[s, q])

    def co_attention(self, crossing: dict[tuple[str, str], Tensor]) -> None:
        """Eqs. 10 and 11 of one layer: both directions from what was there before."""
        before = dict(self.of)
        for (s, q), average in crossing.items():
            own, other = normalised(before[s, s]), normalised(before[q, q])
            added = product(product(own.T, average), other)
            self.of[s, q] = before[s, q] + added
            self.of[s, s] = before[s, s] + product(average, before[q, s])


def rolled_out(own: Tensor, attention: Tensor) -> Tensor:
    """One layer of rollout: (mean over heads + identity), rows adding up to 1, times before."""
    mixing = attention.double().mean(0) + torch.eye(attention.shape[-1]).double()
    for q in range(len(mixing)):
        mixing[q] = mixing[q] / mixing[q].sum()
    return product(mixing, own)


def crossed(asking: Tensor, attention: Tensor, answering: Tensor) -> Tensor:
    """Rollout where two streams meet: R_ti = R_tt^T . mean over heads . R_ii."""
    return product(product(asking.T, attention.double().mean(0)), answering)
