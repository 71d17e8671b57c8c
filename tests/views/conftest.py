"""Attributions made by hand, so that views are tried without any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream

Make = Callable[..., Attribution]


def _attribution(stream: Stream, method: str, label: str, **more: Any) -> Attribution:
    batch = len(stream.scores)
    facts: dict[str, Any] = {
        "target": torch.zeros(batch, dtype=torch.long),
        "output": torch.full((batch,), 2.5),
        "labels": (label,) * batch,
        "provenance": {"model": "tiny"},
    }
    return Attribution(
        method=method, streams={stream.name: stream}, main=stream.name, **(facts | more)
    )


@pytest.fixture
def text() -> Make:
    """Makes an attribution of one text out of (token, score, word) triples; word None: special."""

    def make(
        triples: Sequence[tuple[str, float, int | None]],
        method: str = "lrp_ah_ln",
        label: str = "positive",
        **more: Any,
    ) -> Attribution:
        tokens, scores, words = zip(*triples, strict=True)
        stream = Stream(
            "text",
            torch.tensor([scores]),
            torch.ones(1, len(scores), dtype=torch.bool),
            (tokens,),
            (words,),
        )
        return _attribution(stream, method, label, **more)

    return make


@pytest.fixture
def sentence(text: Make) -> Make:
    """Makes an attribution of '[CLS] gripping , yet dull [SEP]' whose [SEP] dwarfs the words."""

    def make(**more: Any) -> Attribution:
        return text(
            [
                ("[CLS]", 0.1, None),
                ("grip", 0.5, 0),
                ("ping", 0.3, 0),
                (",", 0.0, 1),
                ("yet", -0.01, 2),
                ("dull", -0.4, 3),
                ("[SEP]", 4.0, None),
            ],
            **more,
        )

    return make


@pytest.fixture
def image() -> Make:
    """Makes an attribution of one image out of its patches (rows, columns)."""

    def make(
        patches: Tensor,
        size: tuple[int, int] | None = (28, 28),
        method: str = "lrp_ah_ln",
        pixels: Tensor | None = None,
        **more: Any,
    ) -> Attribution:
        rows, columns = patches.shape
        seen = None if size is None else torch.rand(1, 3, *size, generator=_seeded())
        stream = Stream(
            "image",
            patches.reshape(1, -1),
            torch.ones(1, rows * columns, dtype=torch.bool),
            grid=(rows, columns),
            image=seen,
            pixels=None if pixels is None else pixels[None],
        )
        return _attribution(stream, method, more.pop("label", "seven"), **more)

    return make


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)
