"""Pictures of fixed attributions, and how far a picture may be from the stored one.

`PYTHONPATH=src python -m tests.render.goldens` writes the stored pictures anew. Look at them before
you keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy
import torch
from PIL import Image

from whyformer.attribution import Attribution, Stream, views
from whyformer.render.picture.figure import figure

FOLDER = Path(__file__).parent / "golden"
SMALLER = 4  # stored pictures are this much smaller than drawn ones
# Letters differ by a hair from one release of FreeType to the next, and push what follows them.
NEAR = 2  # stored pixels that a colour may have moved
WORST = 48.0  # how far from the colours nearby a stored pixel may be, of 255
UNLIKE = 0.006  # the share of pixels that may be further


def text(method: str = "lrp_ah_ln", sign: float = 1.0) -> Attribution:
    """A sentence with words of both signs, one cut in two, and a special token beyond the scale."""
    tokens = ("[CLS]", "a", "grip", "ping", "film", ",", "yet", "over", "long", "[SEP]")
    words = (None, 0, 1, 1, 2, 3, 4, 5, 5, None)
    scores = sign * torch.tensor([[0.1, 0.02, 0.5, 0.3, 0.35, 0.0, -0.05, -0.3, -0.25, 1.9]])
    stream = Stream("text", scores, torch.ones_like(scores).bool(), (tokens,), (words,))
    one = torch.ones(1)
    return Attribution(
        method,
        {"text": stream},
        "text",
        one.long(),
        2.5 * one,
        ("positive",),
        conservation=one,
        sinks={"bias": -0.07 * one},
        provenance={"model": "by hand"},
    )


def image(
    method: str = "gae", spot: tuple[int, int] = (1, 2), signed: bool = False, shape: int = 0
) -> Attribution:
    """A disc or a stripe on a slope of colour, explained by the patch at `spot` and those near."""
    down, across = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
    patches = torch.exp(-((down - spot[0]) ** 2 + (across - spot[1]) ** 2))
    if signed:
        patches = patches - 0.6 * patches.flip(0)
    y, x = torch.meshgrid(torch.linspace(0, 1, 32), torch.linspace(0, 1, 32), indexing="ij")
    seen = torch.stack([0.3 + 0.5 * x, 0.4 + 0.3 * y, 0.7 - 0.3 * x])
    round_or_not = ((x - 0.6) ** 2 + (y - 0.4) ** 2 < 0.05, ((x - y).abs() < 0.1))[shape]
    seen = torch.where(round_or_not, torch.tensor([1.0, 0.9, 0.3])[:, None, None], seen)
    scores = patches.reshape(1, -1)
    stream = Stream("image", scores, torch.ones_like(scores).bool(), grid=(4, 4), image=seen[None])
    one = torch.ones(1)
    return Attribution(
        method,
        {"image": stream},
        "image",
        one.long(),
        one,
        ("disc",),
        provenance={"model": "by hand"},
    )


def methods_by_images() -> bytes:
    """Two methods down, two images across, a colour bar beside each row."""
    rows = [
        [image(m, (i, 3 - i), signed=m == "lrp_ah_ln", shape=i % 2) for i in (1, 2)]
        for m in ("lrp_ah_ln", "gae")
    ]
    return figure(rows, columns=["first", "second"]).file()


PICTURES: dict[str, Callable[[], bytes]] = {
    "words": lambda: views["png"].render(text()),
    "subwords": lambda: views["png"].render(text(), subwords=True),
    "image": lambda: views["png"].render(image(signed=True)),
    "compared_words": lambda: views["png"].render_comparison([text(), text("gae", -0.4)]),
    "compared_images": lambda: views["png"].render_comparison([image(), image("rollout", (2, 0))]),
    "methods_by_images": methods_by_images,
    "methods_by_words": lambda: figure([[text()], [text("attn_lrp", -2.0)]]).file(),
}


def small(file: bytes) -> Image.Image:
    """The picture as it is stored."""
    with Image.open(BytesIO(file)) as picture:
        return picture.convert("RGB").reduce(SMALLER)


def stored(name: str) -> Image.Image:
    """The stored picture of that name."""
    with Image.open(FOLDER / f"{name}.png") as picture:
        return picture.convert("RGB")


def unlike(one: Image.Image, other: Image.Image) -> float:
    """The share of pixels of either picture whose colour is nowhere near in the other."""
    wide, high = (min(sides) for sides in zip(one.size, other.size, strict=True))
    first, second = (
        numpy.asarray(picture.crop((0, 0, wide, high))).astype(float) for picture in (one, other)
    )
    return max(_missing(first, second), _missing(second, first))


def _missing(drawn: numpy.ndarray, before: numpy.ndarray) -> float:
    high, wide = drawn.shape[:2]
    around = numpy.pad(before, ((NEAR, NEAR), (NEAR, NEAR), (0, 0)), mode="edge")
    moved = [
        abs(drawn - around[y : y + high, x : x + wide]).max(axis=2)
        for y in range(2 * NEAR + 1)
        for x in range(2 * NEAR + 1)
    ]
    return float((numpy.minimum.reduce(moved) > WORST).mean())


def main() -> None:
    """Write every picture."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        small(draw()).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
