"""Attributions and models built sample by sample, so that a batch with any padding can be
compared with its samples alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.metrics import Metric

ROWS, PATCH = 2, 4  # of an image's grid, and the pixels of a patch's side
GARBAGE = 1e6  # the values at padding, unless others are passed


class Linear:
    """A model whose logits are the sum of what the kept tokens weigh, (batch, classes)."""

    def __init__(self, weights: Tensor, bias: Tensor | None = None) -> None:
        self.weights = weights.double()  # (batch, tokens, classes)
        self.bias = 0 if bias is None else bias.double()
        self.calls: list[Mapping[str, Tensor]] = []

    def __call__(self, kept: Mapping[str, Tensor]) -> Tensor:
        self.calls.append(kept)
        (one,) = kept.values()
        return (self.weights * one.unsqueeze(2)).sum(1) + self.bias


def stream_of(
    scores: Sequence[Sequence[float]] | Tensor,
    mask: Tensor | None = None,
    name: str = "text",
    **more: Any,
) -> Stream:
    """A stream; without a mask nothing is padding."""
    values = torch.as_tensor(scores, dtype=torch.float64)
    mask = torch.ones_like(values, dtype=torch.bool) if mask is None else mask
    return Stream(name, values, mask, **more)


def attribution_of(*streams: Stream, target: int = 0, **more: Any) -> Attribution:
    """An attribution of these streams; the first is the main one."""
    batch = len(streams[0].scores)
    facts: dict[str, Any] = {
        "target": torch.full((batch,), target),
        "output": torch.ones(batch).double(),
        "labels": ("yes",) * batch,
    }
    return Attribution("by hand", {s.name: s for s in streams}, streams[0].name, **(facts | more))


def text(scores: Sequence[Sequence[float]] | Tensor, **more: Any) -> Attribution:
    return attribution_of(stream_of(scores, **more))


def image(maps: Sequence[Any] | Tensor, **more: Any) -> Attribution:
    """An attribution of images out of (batch, rows, columns)."""
    values = torch.as_tensor(maps, dtype=torch.float64)
    grid = (values.shape[1], values.shape[2])
    return attribution_of(stream_of(values.flatten(1), name="image", grid=grid, **more))


# -- samples, one by one ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One sample before it is put into a batch: everything that any metric needs."""

    scores: Tensor  # (tokens,), or (rows, columns) of an image
    other: Tensor  # the same, of another attribution
    weights: Tensor  # (tokens, classes), or (rows, columns, classes)
    rationale: Tensor  # (words,)
    mask: Tensor  # (height, width) of an image
    region: Tensor

    @property
    def tokens(self) -> int:
        return self.scores.shape[-1]


def item(seed: int, tokens: int, pictures: bool = False, scores: Tensor | None = None) -> Item:
    """A random sample; an image of ROWS rows has that many columns."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    shape = (ROWS, tokens) if pictures else (tokens,)
    size = (ROWS * PATCH, tokens * PATCH)
    return Item(
        scores=draw(*shape) if scores is None else scores.reshape(shape).double(),
        other=draw(*shape),
        weights=draw(*shape, 3),
        rationale=draw(tokens) > 0,
        mask=torch.randint(-1, 2, size, generator=generator),
        region=draw(*size) > 1,
    )


def batch_of(
    items: Sequence[Item],
    pictures: bool = False,
    extra: int = 0,
    garbage: float = GARBAGE,
    **more: Any,
) -> tuple[Attribution, dict[str, Any]]:
    """The attribution of some samples and what goes with it; padding has GARBAGE."""
    longest = max(one.tokens for one in items) + extra

    def padded(parts: Sequence[Tensor], dim: int, scale: int, fill: float) -> Tensor:
        found = []
        for part in parts:
            shape = list(part.shape)
            shape[dim] = longest * scale - shape[dim]
            found.append(torch.cat((part, torch.full(shape, fill, dtype=part.dtype)), dim))
        return torch.stack(found)

    along = 1 if pictures else 0
    mask = padded([torch.ones_like(one.scores, dtype=torch.bool) for one in items], along, 1, 0)

    def made(name: str) -> Attribution:
        scores = padded([getattr(one, name) for one in items], along, 1, garbage)
        if pictures:
            grid = (ROWS, longest)
            one = stream_of(scores.flatten(1), mask.flatten(1), "image", grid=grid, **more)
        else:
            words = [_words(each.tokens) + (None,) * (longest - each.tokens) for each in items]
            one = stream_of(scores, mask, "text", word_ids=tuple(words), **more)
        return attribution_of(one)

    weights = padded([one.weights for one in items], along, 1, GARBAGE)
    arguments = {
        "rerun": Linear(weights.flatten(1, 2) if pictures else weights),
        "labels": torch.ones(len(items), dtype=torch.long),
        "rationales": padded([one.rationale for one in items], 0, 1, False),
        "masks": padded([one.mask for one in items], 1, PATCH, 1),
        "regions": padded([one.region for one in items], 1, PATCH, True)
        if pictures
        else padded([one.rationale for one in items], 0, 1, True),
        "other": made("other"),
    }
    return made("scores"), arguments


def needed(metric: Metric, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Only the arguments that a metric needs."""
    return {name: arguments[name] for name in metric.needs}


def _words(tokens: int) -> tuple[int | None, ...]:
    """[CLS], then words of two tokens each, then [SEP] if there is room for it."""
    if tokens == 1:
        return (0,)
    inner = tuple(i // 2 for i in range(tokens - 2))
    return (None, *inner, None)
