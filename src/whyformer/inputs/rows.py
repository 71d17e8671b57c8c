"""Other rows of a batch that is ready to run: some of its samples, or all of them several times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from whyformer.inputs.batch import Batch
from whyformer.models.signature import samples_axis


def has_rows(prepared: Batch, module: nn.Module) -> bool:
    """Whether it is plain which part of each argument belongs to which sample."""
    given = [value for value in prepared.arguments.values() if not _is_setting(value)]
    per_sample = all(
        isinstance(value, Tensor) and value.ndim > 0 and len(value) == prepared.size
        for value in given
    )
    # As many tokens as samples, and a mask of tokens by tokens looks like one of the samples.
    ambiguous = prepared.size > 1 and prepared.count == prepared.size
    return per_sample and not ambiguous and not samples_axis(module)


def has_columns(prepared: Batch) -> bool:
    """Whether columns of padding can be cut off every argument."""
    if prepared.others or prepared.mask is None or prepared.grid is not None:
        return False
    count = prepared.mask.shape[1]
    return all(
        value.ndim < 2
        or (value.shape[1] == count and (value.ndim == 2 or name == prepared.carrier))
        for name, value in prepared.arguments.items()
        if isinstance(value, Tensor)
    )


def rows_of(prepared: Batch, rows: Sequence[int], columns: int | None = None) -> Batch:
    """The batch of these samples, in this order and as often as they are named.

    With `columns` it ends there. What remembers the user's columns is left behind.
    """
    listed = list(rows)

    def tensor(value: Tensor | None) -> Tensor | None:
        return None if value is None else value[listed]

    def items(value: Any) -> Any:
        return value and tuple(value[row][:columns] for row in listed)

    def arguments(given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _picked(value, listed, columns) for name, value in given.items()}

    return replace(
        prepared,
        arguments=arguments(prepared.arguments),
        baseline_arguments=arguments(prepared.baseline_arguments),
        size=len(listed),
        content=tuple(prepared.content[row] for row in listed),
        mask=None if prepared.mask is None else prepared.mask[listed][:, :columns],
        tokens=items(prepared.tokens),
        word_ids=items(prepared.word_ids),
        image=tensor(prepared.image),
        pixel_mask=tensor(prepared.pixel_mask),
        layout=None,
        others={name: rows_of(other, rows) for name, other in prepared.others.items()},
    )


def _is_setting(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _picked(value: Any, rows: list[int], columns: int | None) -> Any:
    if not isinstance(value, Tensor):
        return value
    picked = value[rows]
    return picked if columns is None or picked.ndim < 2 else picked[:, :columns].contiguous()
