"""Segmentation by an attribution (Chefer et al., CVPR 2021, sec. 4.1, and the authors' script)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.metrics.metric import metric
from whyformer.metrics.pixels import minmax, pixel_map
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import find_stream
from whyformer.statistics.ranks import equal_runs

Shares = tuple[Tensor, Tensor]

HOW = {
    "pixel_accuracy": "share of the labelled pixels on the right side of the map's mean",
    "miou": "intersection over union of background and of foreground, summed over all images,"
    " then their mean; foreground is where the map exceeds its mean",
    "map": "average precision per image of both classes' pixels in one ranking, the map for the"
    " foreground and 1 - map for the background, as in the authors' script",
    "map_foreground": "average precision per image of the foreground's pixels ranked by the map",
    "map_class_mean": "average precision per image of each class alone, mean of the classes",
}


def all_measures(
    attribution: Attribution,
    masks: Tensor,
    *,
    stream: str | None = None,
    foreground: int = 1,
    ignore: int = -1,
) -> dict[str, Score]:
    """The scores of all five measures, from one ranking of the pixels."""
    one = find_stream(attribution, stream)
    if masks.ndim != 3 or len(masks) != len(one.scores):
        raise InputError(
            f"masks are {tuple(masks.shape)}; expected ({len(one.scores)}, height, width)",
            argument="masks",
        )
    height, width = masks.shape[1:]
    score_map, inside = (part.flatten(1) for part in pixel_map(one, (height, width)))
    labels = masks.to(score_map.device).flatten(1).long()
    truth, counted = labels == foreground, (labels != ignore) & inside

    scaled = minmax(score_map, inside)
    # The mean is over the whole image: ignored pixels are still part of the map.
    level = scaled.sum(1, keepdim=True) / inside.sum(1, keepdim=True).clamp(min=1)
    found = scaled > level
    shares = {
        "pixel_accuracy": _column(((found == truth) & counted).sum(1), counted.sum(1)),
        "miou": _overlap(found, truth, counted),
        **_precisions(scaled, truth, counted),
    }
    parts = {name: _per_image(share) for name, share in shares.items()}
    return {
        measure: Score(
            parts[measure],
            convention=f"{measure}: {HOW[measure]}; map of '{one.name}' upsampled bilinearly to"
            f" the mask; pixels labelled {ignore} are ignored",
            parts=parts,
            shares=shares[measure],
        )
        for measure in HOW
    }


@metric(
    "segmentation",
    title="Segmentation: how well does the map segment the object?",
    paper="Chefer, Gur, Wolf: Transformer Interpretability Beyond Attention Visualization, 2021",
    better="higher",
    range=(0.0, 1.0),
    convention="The map is upsampled to the mask; foreground is where it exceeds its mean.",
    compute_all=all_measures,
)
def segmentation(
    attribution: Attribution,
    masks: Tensor,
    *,
    stream: str | None = None,
    measure: Literal[
        "pixel_accuracy", "miou", "map", "map_foreground", "map_class_mean"
    ] = "pixel_accuracy",
    foreground: int = 1,
    ignore: int = -1,
) -> Score:
    """One measure of how the map segments its image, (batch,); all five are in `parts`.

    Masks hold `foreground` at the object, `ignore` at pixels that do not count (255 in VOC), and
    anything else at the background. The mean of the score is that of the authors' script:
    accuracy and mIoU from counts over all images, average precision per image.
    """
    return all_measures(attribution, masks, stream=stream, foreground=foreground, ignore=ignore)[
        measure
    ]


def average_precision(scores: Tensor, truth: Tensor, counted: Tensor) -> Tensor:
    """Area under the precision-recall steps of each sample, (batch,), in double precision.

    Equal scores are one step. The area is 0 if no item is true.
    """
    # Items that do not count sort last and are no hits, so they change no precision.
    ordered, order = scores.masked_fill(~counted, -torch.inf).sort(dim=1, descending=True)
    hits = (truth & counted).gather(1, order).double()
    _, ends = equal_runs(ordered)
    precision = hits.cumsum(1).gather(1, ends) / (ends + 1)
    return (precision * hits).sum(1) / hits.sum(1).clamp(min=1)


def _precisions(scaled: Tensor, truth: Tensor, counted: Tensor) -> dict[str, Shares]:
    """Three ways to average precision; they can differ by more than ten points."""
    both = torch.cat((scaled, 1 - scaled), 1)
    joint = average_precision(both, torch.cat((truth, ~truth), 1), torch.cat((counted, counted), 1))
    sides = [(truth & counted).any(1), (~truth & counted).any(1)]
    object_, ground = (
        average_precision(scores, where, counted)
        for scores, where in ((scaled, truth), (1 - scaled, ~truth))
    )
    # A crop may be all object, or have none: an absent class has no precision.
    present = sides[0].double() + sides[1].double()
    classes = (object_ + ground) / present.clamp(min=1)
    some = counted.any(1)
    return {
        "map": _column(joint * some, some),
        "map_foreground": _column(object_, sides[0]),
        "map_class_mean": _column(classes * some, some),
    }


def _overlap(found: Tensor, truth: Tensor, counted: Tensor) -> Shares:
    """Intersection and union of background and of foreground, (batch, 2) each."""
    pairs = ((~found & counted, ~truth & counted), (found & counted, truth & counted))
    return (
        torch.stack([(a & b).sum(1) for a, b in pairs], 1).double(),
        torch.stack([(a | b).sum(1) for a, b in pairs], 1).double(),
    )


def _column(found: Tensor, there: Tensor) -> Shares:
    return found.double().unsqueeze(1), there.double().unsqueeze(1)


def _per_image(share: Shares) -> Tensor:
    """The measure of each image alone, (batch,); 0 if no pixel counts."""
    found, there = share
    has = there > 0
    return (found / there.where(has, 1) * has).sum(1) / has.sum(1).clamp(min=1)
