"""How well maps of a real model segment the animal: pixel accuracy, mIoU and mAP on pet images.

    python benchmarks/segmentation.py --data $WHYFORMER_DATA [--limit N] [--methods a,b,...]
                                      [--batch 8] [--threads 1] [--json FILE]

DeiT-Tiny explains its predicted class. Conventions are those of the authors' segmentation script
(Chefer et al., CVPR 2021): the 224 centre crop of image and trimap; patch maps go to pixels by
bilinear upsampling; a map is scaled to 0..1 and what exceeds its mean is foreground; boundary
pixels are ignored. Pixel accuracy and IoU are accumulated over all images (correct over
labelled pixels; intersection over union of background and of foreground, then their mean).
Average precision is per image, then averaged. There is more than one way to compute it,
they differ by ten points and more, so all three are printed:
  joint        both classes' pixels in one ranking, the map for the foreground and 1 - map for the
               background: what the authors' script does, and the figure called mAP here
  foreground   the animal's pixels ranked by the map
  class mean   the mean of that and of the background's pixels ranked by 1 - map

The table also has the figures that are reported for the authors' code on other pet images with the
same model. How that report computed mAP is not known. It is nearest to the class mean; this was
found by trying these three, so it is no evidence for the maps. Accuracy and mIoU have one
definition.
Seconds are CPU time of one image explained alone, one thread by default.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import whyformer as wf

CROP = 224
ANIMAL, BACKGROUND = 1, 2  # of a trimap; 3 is the boundary
TIMED = 5  # images explained alone, for the time of one


class Contender(NamedTuple):
    """A method as the authors ran it, and what their code scored (accuracy, mIoU, mAP)."""

    options: dict[str, Any]
    authors: tuple[float, float, float]


CONTENDERS = {
    "transformer_attribution": Contender({"start_layer": 1}, (76.6, 60.2, 89.2)),
    "raw_attention": Contender({}, (59.8, 40.4, 70.1)),
    "partial_lrp": Contender({}, (63.8, 44.5, 73.0)),
    "full_lrp": Contender({}, (47.7, 31.3, 50.8)),
    "grad_cam": Contender({}, (64.4, 44.2, 68.9)),
    "rollout": Contender({"start_layer": 1}, (77.6, 62.8, 86.9)),
}


@dataclass
class Tally:
    """Counts over all images so far."""

    correct: int = 0
    labelled: int = 0
    # Counts: float32 would stop counting at 16 million pixels.
    intersection: Tensor = field(default_factory=lambda: torch.zeros(2, dtype=torch.long))
    union: Tensor = field(default_factory=lambda: torch.zeros(2, dtype=torch.long))
    joint: list[float] = field(default_factory=list)
    foreground: list[float] = field(default_factory=list)
    class_mean: list[float] = field(default_factory=list)

    def add(self, score_map: Tensor, animal: Tensor, counted: Tensor) -> None:
        """One image: its map (224, 224), where the animal is, and which pixels count."""
        scaled = minmax(score_map)
        scores, truth = scaled[counted], animal[counted]
        found = scores > scaled.mean()
        self.correct += int((found == truth).sum())
        self.labelled += truth.numel()
        for i, (here, there) in enumerate(((~found, ~truth), (found, truth))):
            self.intersection[i] += (here & there).sum()
            self.union[i] += (here | there).sum()
        joint = average_precision(torch.cat((scores, 1 - scores)), torch.cat((truth, ~truth)))
        self.joint.append(joint)
        # A crop may show only the animal, or none of it: a missing class has no precision.
        present = []
        if truth.any():
            present.append(average_precision(scores, truth))
            self.foreground.append(present[0])
        if not truth.all():
            present.append(average_precision(1 - scores, ~truth))
        self.class_mean.append(mean(present))

    def figures(self) -> dict[str, float]:
        """Pixel accuracy, mIoU and the three ways to mAP, in per cent."""
        return {
            "pixel_accuracy": 100 * self.correct / self.labelled,
            "miou": 100 * float((self.intersection / self.union).mean()),
            "map": 100 * mean(self.joint),
            "map_foreground": 100 * mean(self.foreground),
            "map_class_mean": 100 * mean(self.class_mean),
        }


def minmax(score_map: Tensor) -> Tensor:
    """The map from 0 to 1; all zeros if all pixels have the same score."""
    span = score_map.max() - score_map.min()
    return (score_map - score_map.min()) / span if span > 0 else torch.zeros_like(score_map)


def average_precision(scores: Tensor, truth: Tensor) -> float:
    """Area under the precision-recall steps; equal scores are one step."""
    order = scores.argsort(descending=True)
    scores, hits = scores[order], truth[order].double().cumsum(0)
    last_of_step = torch.cat((scores[1:] != scores[:-1], torch.tensor([True])))
    places = last_of_step.nonzero().flatten()
    found = hits[places]
    precision, recall = found / (places + 1), found / hits[-1]
    return float((precision * recall.diff(prepend=torch.zeros(1, dtype=recall.dtype))).sum())


def samples(folder: Path, limit: int | None) -> Iterator[tuple[Tensor, Tensor]]:
    """(pixels in 0..1 (3, 224, 224), trimap (224, 224)) of each image.

    A limit takes every n-th, so that all breeds are in it.
    """
    with (folder / "index.csv").open() as file:
        names = [row["file"] for row in csv.DictReader(file)]
    if limit is not None:
        names = names[:: max(1, len(names) // limit)][:limit]
    for name in names:
        with Image.open(folder / "images" / name) as image:
            pixels = torch.frombuffer(bytearray(image.convert("RGB").tobytes()), dtype=torch.uint8)
            pixels = pixels.reshape(image.height, image.width, 3).permute(2, 0, 1).float() / 255
        with Image.open(folder / "trimaps" / name.replace(".jpg", ".png")) as image:
            trimap = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
            trimap = trimap.reshape(image.height, image.width)
        yield centre(pixels), centre(trimap)


def centre(picture: Tensor) -> Tensor:
    """The middle (..., 224, 224)."""
    top, left = ((side - CROP) // 2 for side in picture.shape[-2:])
    return picture[..., top : top + CROP, left : left + CROP]


def model_and_norm(folder: Path) -> tuple[nn.Module, Tensor, Tensor]:
    """The model, and the mean and deviation that its pixels are normalised by."""
    from transformers import AutoModelForImageClassification

    facts = json.loads((folder / "preprocessor_config.json").read_text())
    offset, deviation = (
        torch.tensor(facts[key]).reshape(3, 1, 1) for key in ("image_mean", "image_std")
    )
    model: nn.Module = AutoModelForImageClassification.from_pretrained(folder)
    return model.eval().requires_grad_(False), offset, deviation


def pixel_maps(images: Tensor, model: nn.Module, method: str) -> Tensor:
    """Maps of the predicted classes, (batch, 224, 224)."""
    options = CONTENDERS[method].options
    stream = wf.explain({"pixel_values": images}, model, method=method, **options).streams["image"]
    if stream.pixels is not None:
        return stream.pixels
    return F.interpolate(
        stream.score_map.unsqueeze(1), size=(CROP, CROP), mode="bilinear", align_corners=False
    ).squeeze(1)


def seconds_per_image(images: Tensor, model: nn.Module, method: str) -> float:
    """CPU time of one image explained alone, the best of a few."""
    best = float("inf")
    for image in (images[:1], *images[:TIMED].split(1)):  # the first twice: once to warm up
        start = time.process_time()
        pixel_maps(image, model, method)
        best = min(best, time.process_time() - start)
    return best


def measure(
    data: Path, methods: list[str], limit: int | None = None, batch: int = 8
) -> dict[str, dict[str, Any]]:
    """{method: figures and seconds}."""
    model, offset, deviation = model_and_norm(data / "deit-tiny")
    pixels, trimaps = map(
        torch.stack, zip(*samples(data / "pets-segmentation", limit), strict=True)
    )
    images = (pixels - offset) / deviation
    results = {}
    for method in methods:
        tally = Tally()
        for some, trimap in zip(images.split(batch), trimaps.split(batch), strict=True):
            for score_map, labels in zip(pixel_maps(some, model, method), trimap, strict=True):
                tally.add(score_map, labels == ANIMAL, (labels == ANIMAL) | (labels == BACKGROUND))
        results[method] = {
            **tally.figures(),
            "seconds_per_image": seconds_per_image(images, model, method),
            "images": len(images),
            "authors": CONTENDERS[method].authors,
        }
        show(method, results[method])
    return results


def show(method: str, found: dict[str, Any]) -> None:
    names = ("pixel_accuracy", "miou", "map", "map_foreground", "map_class_mean")
    ours = " ".join(f"{found[name]:10.1f}" for name in names)
    theirs = "{:.1f} / {:.1f} / {:.1f}".format(*CONTENDERS[method].authors)
    print(f"{method:24s}{ours}   {theirs:>20s}{found['seconds_per_image']:9.3f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    default = os.environ.get("WHYFORMER_DATA")
    parser.add_argument("--data", type=Path, default=default, required=default is None)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--methods", default=",".join(CONTENDERS))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    methods = options.methods.split(",")
    unknown = set(methods) - set(CONTENDERS)
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(CONTENDERS)}", file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    columns = ("accuracy", "mIoU", "AP joint", "foreground", "class mean")
    heads = " ".join(f"{column:>10s}" for column in columns)
    print(f"{'per cent':24s}{heads}   {'reported for theirs':>20s}{'s/image':>9s}")
    results = measure(options.data, methods, options.limit, options.batch)
    from report import finish  # other scripts import this one from other folders

    return finish({"methods": results}, [], options.json)


if __name__ == "__main__":
    raise SystemExit(main())
