"""What decides the order of methods on pet images: the animal's size, and where a map is cut.

    python benchmarks/segmentation_order.py --data $WHYFORMER_DATA [--limit N] [--methods a,b,...]

Maps, crops and pixel accuracy are those of benchmarks/segmentation.py. The images are taken in
thirds by the share of labelled pixels that the animal fills. Beside the authors' cut, foreground
is what exceeds the map's mean, is a second cut that knows the animal's share: it depends on the
ranking of the pixels alone. `centre` is a blob in the middle of the picture that depends neither on
the image nor on the model.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor

from segmentation import (
    ANIMAL,
    BACKGROUND,
    CONTENDERS,
    CROP,
    minmax,
    model_and_norm,
    pixel_maps,
    samples,
)

METHODS = ("rollout", "transformer_attribution", "partial_lrp", "raw_attention")
CENTRE = "centre"
PARTS = 3


class Cut(NamedTuple):
    """One image's map, cut in two ways: pixels that count, and of those the right ones."""

    counted: int
    at_mean: int
    at_share: int
    above_mean: float  # the share of pixels called animal by the first cut


def cut(score_map: Tensor, animal: Tensor, counted: Tensor) -> Cut:
    """The two cuts of a map (224, 224)."""
    scaled = minmax(score_map)
    scores, truth = scaled[counted], animal[counted]
    above = scores > scaled.mean()
    ranked = torch.zeros_like(truth)
    ranked[scores.argsort(descending=True)[: int(truth.sum())]] = True
    at_mean, at_share = (int((found == truth).sum()) for found in (above, ranked))
    return Cut(truth.numel(), at_mean, at_share, float(above.float().mean()))


def blob(count: int) -> Tensor:
    """A map that is highest in the middle, repeated for `count` images."""
    line = torch.linspace(-1, 1, CROP)
    return -(line[:, None] ** 2 + line**2).expand(count, -1, -1)


def thirds(shares: Tensor) -> list[list[int]]:
    """The images with the smallest animals, those between, and the largest."""
    return [part.tolist() for part in shares.argsort().tensor_split(PARTS)]


def percent(cuts: list[Cut], which: list[int], way: str) -> float:
    """Correct pixels in per cent of those that count in these images."""
    right = sum(getattr(cuts[i], way) for i in which)
    return 100 * right / sum(cuts[i].counted for i in which)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    default = os.environ.get("WHYFORMER_DATA")
    parser.add_argument("--data", type=Path, default=default, required=default is None)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    methods = options.methods.split(",")
    if unknown := set(methods) - set(CONTENDERS):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CONTENDERS)}")
    model, offset, deviation = model_and_norm(options.data / "deit-tiny")
    found = samples(options.data / "pets-segmentation", options.limit)
    pixels, trimaps = map(torch.stack, zip(*found, strict=True))
    images = (pixels - offset) / deviation
    animal, counted = trimaps == ANIMAL, (trimaps == ANIMAL) | (trimaps == BACKGROUND)
    shares = animal.flatten(1).sum(1) / counted.flatten(1).sum(1)
    parts = thirds(shares)
    every = list(range(len(images)))
    sizes = " ".join(f"{100 * float(shares[part].mean()):6.1f}" for part in [every, *parts])
    print(f"{'':26s}{'cut at the mean':^28s}{'cut at the share':^28s}{'above':>7s}")
    heads = " ".join(f"{name:>6s}" for name in ("all", "small", "middle", "large"))
    print(f"{'per cent':26s}{heads} {heads} {'mean':>7s}")
    print(f"{'the animal fills':26s}{sizes}")
    for method in [*methods, CENTRE]:
        maps = (
            blob(len(images))
            if method == CENTRE
            else torch.cat([pixel_maps(some, model, method) for some in images.split(8)])
        )
        cuts = [cut(*one) for one in zip(maps, animal, counted, strict=True)]
        figures = " ".join(
            f"{percent(cuts, part, way):6.1f}"
            for way in ("at_mean", "at_share")
            for part in [every, *parts]
        )
        above = 100 * sum(one.above_mean for one in cuts) / len(cuts)
        print(f"{method:26s}{figures} {above:7.1f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
