"""The rows of a names audit as one grid per group: templates by names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from whyformer.audit.word_lists import Template, WordGroups

Row = Mapping[str, Any]


class NameGrid:
    """One method's rows, looked up by measure and group."""

    def __init__(
        self, rows: Iterable[Row], method: str, templates: Sequence[Template], names: WordGroups
    ) -> None:
        self.method, self.templates, self.names = method, tuple(templates), names
        self._cells = {
            (row["group"], row["template"], row["name"]): row
            for row in rows
            if row["method"] == method
        }

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, in their order."""
        return tuple(self.names.groups)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of groups."""
        return list(combinations(self.groups, 2))

    @cached_property
    def has_classes(self) -> bool:
        """Whether the model predicts a class, not a number."""
        return all(row["prediction"] is not None for row in self._cells.values())

    def rows(self, group: str, name: str | None = None) -> list[Row]:
        """Return the rows of a group, or of one of its names, template by template."""
        chosen = self.names.groups[group] if name is None else (name,)
        return [self._cells[group, at, one] for at in range(len(self.templates)) for one in chosen]

    def values(self, measure: str, group: str, tone: str | None = None) -> Tensor:
        """Return one measure, (templates, names); only templates of `tone`, unless it is None."""
        return torch.tensor(
            [
                [float(self._cells[group, at, name][measure]) for name in self.names.groups[group]]
                for at, template in enumerate(self.templates)
                if tone in (None, template.tone)
            ],
            dtype=torch.float64,
        )

    def tokens(self, group: str) -> list[int]:
        """Return the number of tokens of each name of a group, in the first template."""
        return [self._cells[group, 0, name]["tokens"] for name in self.names.groups[group]]

    def predictions(self, group: str) -> list[list[str]]:
        """Return the predicted classes, template by template and name by name."""
        return [
            [self._cells[group, at, name]["prediction"] for name in self.names.groups[group]]
            for at in range(len(self.templates))
        ]

    def flips(self, first: str, second: str) -> Tensor:
        """Return (templates, names, other names), 1 if the swap changes the prediction."""
        return torch.tensor(
            [
                [[float(one != other) for other in theirs] for one in ours]
                for ours, theirs in zip(
                    self.predictions(first), self.predictions(second), strict=True
                )
            ],
            dtype=torch.float64,
        )

    def shifts(self, first: str, second: str) -> Tensor:
        """Return (templates, names, other names), how far the swap moves the probability."""
        ours, theirs = (self.values("probability", group) for group in (first, second))
        return (ours[:, :, None] - theirs[:, None, :]).abs()

    def different(self, first: str, second: str) -> Tensor:
        """Return (names, other names), 1 for every pair of different names."""
        ours, theirs = (self.names.groups[group] for group in (first, second))
        return torch.tensor(
            [[float(one != other) for other in theirs] for one in ours], dtype=torch.float64
        )
