"""Whether inputs look like what a bundled model was trained on: English, digits, coloured shapes.

A default model is chosen by the kind of the inputs alone. It answers for every text and every
image, also for those that it knows nothing about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from whyformer.errors import InputError
from whyformer.inputs.detect import is_image, is_text_image_pair, is_text_pair, samples_of
from whyformer.inputs.images import open_image
from whyformer.inputs.language import foreign_reason

THUMBNAIL = 192  # pixels of the longer side that are looked at
GREY = 6.0  # of 255: how far the colours of a grey image may be from grey, on average
DARK = 64  # of 255
BACKGROUND = 0.5  # of a digit's pixels are dark at least
COLOURS = 150  # of 4,096: more than a drawing of shapes has, also as JPEG


def digit_reason(image: Any) -> str | None:
    """Return why the image is no light digit on black; None if it may be one."""
    pixels = _pixels(image)
    grey = pixels.mean(2, keepdims=True)
    if float(numpy.abs(pixels - grey).mean()) > GREY:
        return "is in colour"
    if float((grey < DARK).mean()) < BACKGROUND:
        return "has a light background"
    return None


def scene_reason(image: Any) -> str | None:
    """Return why the image is no drawing of a few coloured shapes; None if it may be one."""
    coarse = (_pixels(image).astype(numpy.uint8) >> 4).reshape(-1, 3)
    if len(numpy.unique(coarse, axis=0)) > COLOURS:
        return "has many colours, as a photo has"
    return None


def _pixels(image: Any) -> Any:
    """(height, width, 3) of a thumbnail, 0 to 255."""
    small = image.copy()
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    return numpy.asarray(small.convert("RGB"), dtype=numpy.float32)


@dataclass(frozen=True)
class Training:
    """What a bundled model was trained on, and how to tell texts and images that are not like it.

    A check returns a reason, to be put after "the text" or "the image".
    """

    data: str
    text: Callable[[str], str | None] | None = None
    image: Callable[[Any], str | None] | None = None


_QUESTIONS = Training(
    "drawings of coloured shapes and English questions about them", foreign_reason, scene_reason
)
_SCENES = Training("drawings of coloured shapes", foreign_reason, scene_reason)
TRAINING = {
    "sst2": Training("English film reviews", foreign_reason),
    "mnist": Training("light digits on black, of 28 x 28 pixels", image=digit_reason),
    "lxmert_shapes": _QUESTIONS,
    "visualbert_shapes": _QUESTIONS,
    "vlm_shapes": _QUESTIONS,
    "clip_shapes": _SCENES,
    "detr_shapes": _SCENES,
    "caption_shapes": _SCENES,
    "reader": Training("short English passages with a question", foreign_reason),
}


def unfamiliar_reasons(inputs: Any, name: str) -> dict[int, str]:
    """Return by sample why it is not like what a bundled model was trained on.

    Args:
        inputs: What the user passed to `explain`. Chats, tensors and mappings of tensors are not
            looked at.
        name: The name of the model. Nothing is known about models that are not bundled.

    Example:
        >>> unfamiliar_reasons(["a good film", "ein guter Film"], "sst2")
        {1: 'the text looks German'}
    """
    known = TRAINING.get(name)
    if known is None:
        return {}
    stream = "text" if known.image is None else None
    found = {i: _reason(sample, known) for i, sample in enumerate(samples_of(inputs, stream))}
    return {i: reason for i, reason in found.items() if reason is not None}


def _reason(sample: Any, known: Training) -> str | None:
    if is_text_image_pair(sample) or is_text_pair(sample):
        parts = sample.values() if isinstance(sample, Mapping) else sample
        reasons = (_reason(part, known) for part in parts)
        return next((reason for reason in reasons if reason is not None), None)
    if isinstance(sample, str) and known.text is not None and not _is_file(sample):
        reason = known.text(sample)
        return reason and f"the text {reason}"
    if known.image is not None and (is_image(sample) or isinstance(sample, str | Path)):
        try:
            reason = known.image(sample if is_image(sample) else open_image(sample, "RGB"))
        except InputError:
            return None  # a text, or refused with a better message where it is read
        return reason and f"the image {reason}"
    return None


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # a text can be too long for a path, or contain NUL
        return False
