"""Labels, masks and rationales of a dataset, in the form that metrics take."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy
import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.datasets import Mask, Sample
from whyformer.errors import InputError
from whyformer.inputs.images import (
    MODES,
    PlainImageProcessor,
    channels_of,
    open_image,
    plain_processor,
)
from whyformer.inputs.raw_inputs import region_grid_of as region_grid
from whyformer.inputs.tokenizer_scope import tokenizer_scope
from whyformer.metrics.needs import Need
from whyformer.models.load import Loaded
from whyformer.models.processors import first_line, image_processor_of, tokenizer_of


def classes_of(loaded: Loaded) -> dict[int, str]:
    """The names of the model's classes by index; empty if its config has none."""
    names = getattr(getattr(loaded.module, "config", None), "id2label", None) or {}
    return {int(index): str(name) for index, name in names.items()}


def label_of(sample: Sample, names: Sequence[str], classes: dict[int, str]) -> int | None:
    """The index of the sample's class in the model; None if the sample has no label.

    Labels are matched by name if the model has all of the dataset's names, else by number.
    """
    if sample.label is None:
        return None
    numbers = {name.lower(): index for index, name in classes.items()}
    name = sample.label_name or (sample.label if isinstance(sample.label, str) else None)
    if name is None and isinstance(sample.label, int) and 0 <= sample.label < len(names):
        name = names[sample.label]
    if name is not None and all(one.lower() in numbers for one in (name, *names)):
        return numbers[name.lower()]
    if not isinstance(sample.label, int):
        raise InputError(
            f"sample {sample.id!r} is labelled {sample.label!r}, which is not one of the"
            f" model's classes: {_class_list(classes)}",
            argument="samples",
            remedy="Use data with these labels, or without labels",
        )
    if classes and sample.label not in classes:
        raise InputError(
            f"sample {sample.id!r} is labelled {sample.label}, and the model has"
            f" {len(classes)} classes, 0 to {len(classes) - 1}: {_class_list(classes)}",
            argument="samples",
            remedy="Use data that the model was trained for",
        )
    return sample.label


def _class_list(classes: dict[int, str]) -> str:
    names = [classes[i] for i in sorted(classes)]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


# -- masks -----------------------------------------------------------------------------------------


def masks_of(samples: Sequence[Sample], loaded: Loaded) -> Tensor:
    """1 at the object, 0 at the background, -1 at ignored pixels, (batch, height, width).

    A mask is resized and cropped like its image, with nearest-neighbour resampling.
    """
    return torch.stack([_mask(sample, loaded) for sample in samples])


def _mask(sample: Sample, loaded: Loaded) -> Tensor:
    from PIL import Image

    found = sample.extras.get("mask")
    if not isinstance(found, Mask):
        raise InputError(
            f"sample {sample.id!r} has no mask of the object",
            argument="metrics",
            remedy="Use a dataset with masks, such as pets or image_masks, or another metric",
        )
    try:
        values = found.read()
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(
            f"the mask of sample {sample.id!r}, {str(found.source)!r}, cannot be read as an image:"
            f" {first_line(error)}",
            argument="samples",
            remedy="Repair or remove the file",
        ) from error
    channels = channels_of(loaded.module) or 3
    image = sample.inputs["image"] if isinstance(sample.inputs, Mapping) else sample.inputs
    size = open_image(image, MODES[channels]).size
    if (values.shape[1], values.shape[0]) != size:
        raise InputError(
            f"the mask of sample {sample.id!r} is {values.shape[1]} x {values.shape[0]} pixels and"
            f" its image {size[0]} x {size[1]}",
            argument="samples",
            remedy="Use masks of the same size as their images",
        )
    grey = Image.fromarray(((values + 1) * 100).astype(numpy.uint8))  # 0, 100, 200
    steps = image_processor_of(loaded.processor, loaded.module)
    if steps is None or isinstance(steps, PlainImageProcessor):
        plain = steps or region_grid(loaded.module) or plain_processor(loaded.module)
        small = grey.resize((plain.size[1], plain.size[0]), Image.Resampling.NEAREST)
        pixels = torch.from_numpy(numpy.array(small)).float()
    else:
        picture = grey.convert(MODES[channels])
        processed = steps(
            images=[picture],
            return_tensors="pt",
            do_rescale=False,
            do_normalize=False,
            resample=Image.Resampling.NEAREST,
        )
        pixels = processed["pixel_values"][0, 0].float()
    # A processor pads with 0, which means ignored here.
    return (pixels / 100).round().long() - 1


def regions_of(samples: Sequence[Sample], loaded: Loaded) -> Tensor:
    """True at the object, (batch, height, width)."""
    return masks_of(samples, loaded) == 1


# -- rationales ------------------------------------------------------------------------------------


def rationales_of(samples: Sequence[Sample], loaded: Loaded) -> Tensor:
    """Which words of the dataset a person marked, (batch, words)."""
    for sample in samples:
        if "rationale" not in sample.extras or "tokens" not in sample.extras:
            raise InputError(
                f"sample {sample.id!r} has no marked words",
                argument="metrics",
                remedy="Use a dataset with rationales, such as eraser, or another metric",
            )
    longest = max(len(sample.extras["tokens"]) for sample in samples)
    marked = torch.zeros(len(samples), longest, dtype=torch.bool)
    for row, sample in zip(marked, samples, strict=True):
        for start, end in sample.extras["rationale"]:
            row[start:end] = True
    return marked


def with_dataset_words(
    attribution: Attribution, samples: Sequence[Sample], loaded: Loaded
) -> Attribution:
    """The attribution with the dataset's words in place of the tokenizer's.

    A tokenizer splits "don't" into three words; the annotators may have split it differently.
    """
    name = attribution.main
    stream = attribution.streams[name]
    tokenizer = tokenizer_of(loaded.processor, loaded.module)
    width = stream.mask.shape[1]
    rows = [_words(sample, tokenizer, width) for sample in samples]
    streams = {**attribution.streams, name: replace(stream, word_ids=tuple(rows))}
    return replace(attribution, streams=streams)


def _words(sample: Sample, tokenizer: Any, width: int) -> tuple[int | None, ...]:
    """The number of the dataset's word for each token, padded with None."""
    texts = sample.inputs if isinstance(sample.inputs, tuple) else (sample.inputs,)
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            "marked words are compared by the positions of tokens in the text, which only a fast"
            " tokenizer gives",
            argument="processor",
            remedy="Load the model's fast tokenizer",
        )
    with tokenizer_scope(tokenizer):
        encoding = tokenizer(*texts, truncation=True, max_length=width, padding=False)
    parts, spans = encoding.sequence_ids(0), encoding.encodings[0].offsets
    # The document is the last text; a query before it has no marks.
    document = len(texts) - 1
    if len(texts) == 2 and sample.extras.get("query") not in texts:
        document = -1  # two documents: their words are numbered in one sequence
    starts = [_starts(text) for text in texts]
    numbers: list[int | None] = []
    for part, (begin, end) in zip(parts, spans, strict=True):
        piece = "" if part is None else texts[part][begin:end]
        # Some tokenizers include the space before a word.
        begin += len(piece) - len(piece.lstrip(" "))
        if end <= begin or (document >= 0 and part != document):
            numbers.append(None)
            continue
        before = len(starts[0]) if document == -1 and part == 1 else 0
        numbers.append(before + bisect_right(starts[part], begin) - 1)
    return tuple(numbers[:width] + [None] * (width - len(numbers)))


def _starts(text: str) -> list[int]:
    """The position of each word of a text; words are separated by single spaces."""
    found, at = [], 0
    for word in text.split(" "):
        found.append(at)
        at += len(word) + 1
    return found


# -- what metrics need -----------------------------------------------------------------------------

# Needs that must be read in a particular way; others are stacked from the samples' extras.
READERS: Mapping[str, Callable[[Sequence[Sample], Loaded], Tensor]] = {
    "masks": masks_of,
    "regions": regions_of,
    "rationales": rationales_of,
}


def read_need(need: Need, samples: Sequence[Sample], loaded: Loaded) -> Tensor:
    """What a metric needs from the samples' extras, batch first."""
    if need.name in READERS:
        return READERS[need.name](samples, loaded)
    for sample in samples:
        if need.extra not in sample.extras:
            raise InputError(
                f"sample {sample.id!r} has no {need.extra or need.name}: {need.description}",
                argument="metrics",
                remedy="Use a dataset that has it, or another metric",
            )
    return torch.stack([torch.as_tensor(sample.extras[need.extra]) for sample in samples])
