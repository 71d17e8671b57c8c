"""Merge the attributions of parts of a batch into one of the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import pad

from whyformer.attribution import Attribution, Stream
from whyformer.attribution.trust import merge_trust


def merge_parts(
    parts: Sequence[Attribution],
    rows: Sequence[int],
    tokens: tuple[tuple[str, ...], ...] | None,
    word_ids: tuple[tuple[int | None, ...], ...] | None,
) -> Attribution:
    """Return one attribution of the whole batch.

    Args:
        parts: The attributions of the parts. Of their layers only `relevance_sum` is merged: a
            batch whose maps are kept is not divided.
        rows: The row in the batch of every sample, part by part.
        tokens: The tokens of the whole batch.
        word_ids: The word ids of the whole batch.
    """
    order = torch.tensor(rows).argsort()

    def along(tensors: Sequence[Tensor], axes: int = 0) -> Tensor:
        """All samples in order; the next `axes` axes are padded to the longest."""
        for axis in range(1, axes + 1):
            longest = max(tensor.shape[axis] for tensor in tensors)
            tensors = [_pad_axis(tensor, axis, longest) for tensor in tensors]
        return torch.cat(tuple(tensors))[order]

    def if_all(found: Sequence[Tensor | None], axes: int = 0) -> Tensor | None:
        known = [tensor for tensor in found if tensor is not None]
        return along(known, axes) if len(known) == len(found) else None

    def stream(name: str) -> Stream:
        own = [part.streams[name] for part in parts]
        return replace(
            own[0],
            scores=along([one.scores for one in own], 1),
            mask=along([one.mask for one in own], 1),
            deciding=if_all([one.deciding for one in own], 1),
            errors=if_all([one.errors for one in own], 1),
            tokens=tokens,
            word_ids=word_ids,
        )

    first = parts[0]
    remaining = iter(rows)
    own_rows = [list(islice(remaining, len(part))) for part in parts]
    sums = [[layer.relevance_sum for layer in part.layers] for part in parts]
    labels = [label for part in parts for label in part.labels]
    return replace(
        first,
        streams={name: stream(name) for name in first.streams},
        target=along([part.target for part in parts]),
        output=along([part.output for part in parts]),
        labels=tuple(labels[place] for place in order.tolist()),
        conservation=if_all([part.conservation for part in parts]),
        probability=if_all([part.probability for part in parts]),
        sinks={
            name: along([part.sinks.get(name, torch.zeros_like(part.output)) for part in parts])
            for name in dict.fromkeys(name for part in parts for name in part.sinks)
        },
        layers=tuple(
            replace(layer, relevance_sum=if_all(totals))
            for layer, *totals in zip(first.layers, *sums, strict=True)
        ),
        maps={pair: along([part.maps[pair] for part in parts], 2) for pair in first.maps},
        trust=merge_trust(list(zip([part.trust for part in parts], own_rows, strict=True))),
    )


def _pad_axis(tensor: Tensor, axis: int, count: int) -> Tensor:
    """The tensor padded with zeros to `count` entries along the axis."""
    behind = [0, 0] * (tensor.ndim - 1 - axis) + [0, count - tensor.shape[axis]]
    return pad(tensor, behind)
