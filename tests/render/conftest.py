"""Attributions made by hand, so that views are tried without any model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.browser import Browser, open_browser
from whyformer.attribution import Attribution, Layer, Stream

Make = Callable[..., Attribution]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real browser that shows one page after the other."""
    yield from open_browser(tmp_path_factory.mktemp("browser"))


@pytest.fixture
def attended() -> Callable[..., Layer]:
    """Makes a layer whose heads attend at random; `gradient=True` keeps that, too."""

    def make(
        heads: int,
        queries: int,
        keys: int,
        asking: str = "text",
        answering: str = "",
        batch: int = 1,
        gradient: bool = False,
        seed: int = 0,
    ) -> Layer:
        shape, generator = (batch, heads, queries, keys), torch.Generator().manual_seed(seed)
        attention = (3 * torch.randn(shape, generator=generator)).softmax(-1)
        slope = torch.randn(shape, generator=generator) if gradient else None
        return Layer(attention, slope, asking=asking, answering=answering or asking)

    return make


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


# -- several streams -------------------------------------------------------------------------


def _words(name: str, tokens: Sequence[str], scores: Tensor, words: Any, **more: Any) -> Stream:
    mask = torch.ones(1, len(tokens), dtype=torch.bool)
    return Stream(name, scores[None], mask, (tuple(tokens),), words and (tuple(words),), **more)


def _picture(grid: tuple[int, int], scores: Tensor, size: tuple[int, int] | None) -> Stream:
    """A red circle at the left and a blue square at the right, on grey."""
    mask = torch.ones(1, grid[0] * grid[1], dtype=torch.bool)
    if size is None:
        return Stream("image", scores[None], mask, grid=grid)
    y, x = torch.meshgrid(*(torch.linspace(0, 1, n) for n in size), indexing="ij")
    seen = torch.full((3, *size), 0.75)
    seen[:, (x - 0.28) ** 2 + (y - 0.4) ** 2 < 0.03] = torch.tensor([[0.9], [0.15], [0.1]])
    seen[:, ((x - 0.75).abs() < 0.13) & ((y - 0.65).abs() < 0.16)] = torch.tensor(
        [[0.1], [0.25], [0.85]]
    )
    return Stream("image", scores[None], mask, grid=grid, image=seen[None])


def _spot(grid: tuple[int, int], x: float, y: float) -> Tensor:
    """Patch scores that are strongest around one place, (patches,)."""
    down, across = torch.meshgrid(*((torch.arange(n) + 0.5) / n for n in grid), indexing="ij")
    return torch.exp(-((across - x) ** 2 + (down - y) ** 2) / 0.03).flatten()


def _several(streams: Sequence[Stream], label: str, **more: Any) -> Attribution:
    facts: dict[str, Any] = {
        "method": "gae",
        "main": streams[0].name,
        "target": torch.zeros(1, dtype=torch.long),
        "output": torch.full((1,), 2.5),
        "labels": (label,),
        "provenance": {"model": "tiny"},
    }
    return Attribution(streams={stream.name: stream for stream in streams}, **(facts | more))


@pytest.fixture
def question() -> Make:
    """Makes 'what colour is the ball?' about an image, with maps both ways; 'colour' is split."""

    def make(
        grid: tuple[int, int] = (6, 8),
        size: tuple[int, int] | None = (72, 96),
        tokens: Sequence[str] = ("[CLS]", "what", "col", "our", "is", "the", "ball", "?", "[SEP]"),
        words: Sequence[int | None] = (None, 0, 1, 1, 2, 3, 4, 5, None),
        label: str = "red",
        **more: Any,
    ) -> Attribution:
        red, blue = _spot(grid, 0.28, 0.4), _spot(grid, 0.75, 0.65)
        scores = torch.linspace(-0.4, 0.8, len(tokens))
        mixed = torch.rand(len(tokens), 1, generator=_seeded())
        there = 0.3 * mixed * red + 0.1 * (1 - mixed) * blue - 0.02
        back = torch.rand(len(red), len(tokens), generator=_seeded()) - 0.2
        facts = {
            "maps": {
                ("text", "text"): torch.eye(len(tokens))[None],
                ("text", "image"): there[None],
                ("image", "text"): back[None],
                ("image", "image"): torch.eye(len(red))[None],
            }
        }
        streams = [
            _words("text", tokens, scores, words),
            _picture(grid, 0.5 * red - 0.1 * blue, size),
        ]
        return _several(streams, label, **(facts | more))

    return make


@pytest.fixture
def regions() -> Make:
    """Makes a question about an image of which only numbered regions are known."""

    def make(count: int = 36, **more: Any) -> Attribution:
        text = _words("text", ("who", "sits"), torch.tensor([0.5, 1.0]), (0, 1))
        scores = torch.rand(1, count, generator=_seeded())
        image = Stream("image", scores, torch.ones(1, count, dtype=torch.bool))
        maps = {("text", "image"): torch.rand(1, 2, count, generator=_seeded())}
        return _several([text, image], "a dog", **({"maps": maps} | more))

    return make


@pytest.fixture
def matching(question: Make) -> Make:
    """Makes an image matched to a text: two streams and nothing between them."""

    def make(**more: Any) -> Attribution:
        made = question(label="a photo of a ball", **more)
        within = {key: value for key, value in made.maps.items() if key[0] == key[1]}
        return dataclasses.replace(made, maps=within)

    return make


@pytest.fixture
def detection() -> Make:
    """Makes a detection: an image, and queries of which each looked at a place of its own."""

    def make(grid: tuple[int, int] = (6, 8), queries: int = 6, **more: Any) -> Attribution:
        looked = torch.stack([_spot(grid, (q + 0.5) / queries, 0.5) for q in range(queries)])
        names = [f"query {q}" for q in range(queries)]
        streams = [
            _picture(grid, looked[3], (72, 96)),
            _words("queries", names, torch.linspace(-1, 1, queries), None),
        ]
        maps = {
            ("queries", "image"): looked[None],
            ("queries", "queries"): torch.eye(queries)[None],
            ("image", "image"): torch.eye(grid[0] * grid[1])[None],
        }
        return _several(streams, "red circle at query 3", **({"maps": maps} | more))

    return make


@pytest.fixture
def translation() -> Make:
    """Makes a translation whose every token was explained; 'großartig' is two tokens."""

    def make(**more: Any) -> Attribution:
        source = ("this", "film", "is", "mag", "nificent", "</s>")
        decoder_input = ("<pad>", "dieser", "Film", "ist", "groß", "artig")
        said = (*decoder_input[1:], "</s>")
        near = torch.eye(6) + 0.3 * torch.rand(6, 6, generator=_seeded())
        near[3:5, 3:5] = torch.tensor([[0.6, 0.3], [0.2, 0.7]])
        near[2, 1] = -0.4
        before = torch.rand(6, 6, generator=_seeded()).tril()
        streams = [
            _words("source", source, near.sum(0), (0, 1, 2, 3, 3, None)),
            _words("generated", decoder_input, before.sum(0), (None, 0, 1, 2, 3, 3), said=(said,)),
        ]
        maps = {("generated", "source"): near[None], ("generated", "generated"): before[None]}
        return _several(streams, "dieser Film ist großartig", **({"maps": maps} | more))

    return make


@pytest.fixture
def continuation() -> Make:
    """Makes a text that a decoder continued: the generated stream lists its output."""

    def make(**more: Any) -> Attribution:
        text = _words("text", ("once", "up", "on", "a"), torch.rand(4), (0, 1, 1, 2))
        said = ("time", "there", "was")
        generated = _words("generated", said, torch.zeros(3), (0, 1, 2), said=(said,))
        maps = {("generated", "text"): torch.rand(1, 3, 4, generator=_seeded())}
        return _several([text, generated], "time there was", **({"maps": maps} | more))

    return make


@pytest.fixture
def caption() -> Make:
    """Makes an image's caption whose every token was explained."""

    def make(**more: Any) -> Attribution:
        grid, decoder_input = (6, 8), ("<s>", "a", "red", "ball")
        red, blue = _spot(grid, 0.28, 0.4), _spot(grid, 0.75, 0.65)
        seen = torch.stack([red + blue, red, 2 * red - blue, blue])
        said = ("a", "red", "ball", "</s>")
        streams = [
            _picture(grid, red, (72, 96)),
            _words("generated", decoder_input, torch.zeros(4), (None, 0, 1, 2), said=(said,)),
        ]
        return _several(
            streams, "a red ball", **({"maps": {("generated", "image"): seen[None]}} | more)
        )

    return make
