"""The rows of a names audit as a grid per group: templates down, names across."""

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
        """The groups, in the order of their list."""
        return tuple(self.names.groups)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every two groups that are compared."""
        return list(combinations(self.groups, 2))

    @cached_property
    def has_classes(self) -> bool:
        """Whether the model decides for a class; one that gives a number does not."""
        return all(row["prediction"] is not None for row in self._cells.values())

    def rows(self, group: str, name: str | None = None) -> list[Row]:
        """The rows of a group, or of one of its names, template by template."""
        chosen = self.names.groups[group] if name is None else (name,)
        return [self._cells[group, at, one] for at in range(len(self.templates)) for one in chosen]

    def values(self, measure: str, group: str, tone: str | None = None) -> Tensor:
        """(templates, names) of one measure; of the templates of one tone, where it is given."""
        return torch.tensor(
            [
                [float(self._cells[group, at, name][measure]) for name in self.names.groups[group]]
                for at, template in enumerate(self.templates)
                if tone in (None, template.tone)
            ],
            dtype=torch.float64,
        )

    def tokens(self, group: str) -> list[int]:
        """How many tokens each name of a group has, where it stands first."""
        return [self._cells[group, 0, name]["tokens"] for name in self.names.groups[group]]

    def predictions(self, group: str) -> list[list[str]]:
        """What was predicted, template by template, name by name."""
        return [
            [self._cells[group, at, name]["prediction"] for name in self.names.groups[group]]
            for at in range(len(self.templates))
        ]

    def flips(self, first: str, second: str) -> Tensor:
        """(templates, names, other names), 1 where the swap changes what is predicted."""
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
        """(templates, names, other names), how far the swap moves the probability."""
        ours, theirs = (self.values("probability", group) for group in (first, second))
        return (ours[:, :, None] - theirs[:, None, :]).abs()

    def different(self, first: str, second: str) -> Tensor:
        """(names, other names), 1 for every pair of different names."""
        ours, theirs = (self.names.groups[group] for group in (first, second))
        return torch.tensor(
            [[float(one != other) for other in theirs] for one in ours], dtype=torch.float64
        )
