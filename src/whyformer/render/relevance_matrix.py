"""Relevance between two streams, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Item:
    """A row or a column: its text, and whether the tokenizer added it."""

    text: str
    special: bool = False


@dataclass(frozen=True)
class RelevanceMatrix:
    """The relevance of each item of `answering` for each item of `asking`."""

    asking: str
    answering: str
    rows: tuple[Item, ...]
    columns: tuple[Item, ...]
    values: Tensor  # (rows, columns)
    generated: bool = False  # whether the rows are words of an output
    left_out: str = ""  # what `cut` kept, in words

    @property
    def span(self) -> float:
        """The value with full colour: the largest between words that are not special."""
        rows = _own_items(self.rows)
        columns = _own_items(self.columns)
        return _largest(self.values[rows][:, columns]) or _largest(self.values) or 1.0

    @property
    def signed(self) -> bool:
        """Whether it has negative values."""
        return bool((self.values < -1e-6 * self.span).any())

    @property
    def shares(self) -> Tensor:
        """Places on the colour scale, (rows, columns) in -1..1."""
        return (self.values.nan_to_num() / self.span).clamp(-1, 1)

    def cut(self, rows: int, columns: int) -> RelevanceMatrix:
        """Return at most that many: the first rows, and the strongest columns in their order."""
        lines = list(range(min(rows, len(self.rows))))
        kept = self.values[lines].nan_to_num()
        held = kept.abs().sum(0)
        # Special columns go first: they often have the largest values and mean the least.
        rank = sorted(range(len(self.columns)), key=lambda q: (self.columns[q].special, -held[q]))
        across = sorted(rank[: max(1, columns)])
        left_out = [
            f"the first {len(lines)} of {len(self.rows)} rows" * (len(lines) < len(self.rows)),
            f"the strongest {len(across)} of {len(self.columns)} columns"
            * (len(across) < len(self.columns)),
        ]
        return replace(
            self,
            rows=tuple(self.rows[i] for i in lines),
            columns=tuple(self.columns[q] for q in across),
            values=self.values[lines][:, across],
            left_out=" and ".join(filter(None, left_out)),
        )


def word_positions(word_ids: Sequence[int | None]) -> list[list[int]]:
    """Return the token positions of each word, as `Attribution.words` joins them."""
    groups: list[list[int]] = []
    for i, word in enumerate(word_ids):
        if word is not None and i and word == word_ids[i - 1]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def sum_to_words(values: Tensor, rows: Sequence[list[int]], columns: Sequence[list[int]]) -> Tensor:
    """Return (tokens, tokens) summed to (words, words). Positions in no group are left out."""
    return _sum_groups(_sum_groups(values, rows).T, columns).T


def _sum_groups(values: Tensor, groups: Sequence[list[int]]) -> Tensor:
    picked = values[[i for group in groups for i in group]]
    into = torch.tensor([g for g, group in enumerate(groups) for _ in group], dtype=torch.long)
    return values.new_zeros(len(groups), values.shape[1]).index_add(0, into, picked)


def _own_items(items: Sequence[Item]) -> list[int]:
    return [i for i, item in enumerate(items) if not item.special]


def _largest(values: Tensor) -> float:
    finite = values[torch.isfinite(values)].abs()
    return float(finite.max()) if len(finite) else 0.0
