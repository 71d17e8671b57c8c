"""What a dataset knows about its samples, in the form that metrics take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy
import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.datasets import Mask, Sample
from whyformer.errors import InputError
from whyformer.inputs.images import MODES, PlainImages, channels_of, open_image, plain_images
from whyformer.inputs.raw_inputs import region_grid_of as region_grid
from whyformer.inputs.text import tokenizer_scope
from whyformer.models.load import Loaded
from whyformer.models.processors import first_line, image_processor_of, tokenizer_of


def classes_of(loaded: Loaded) -> dict[int, str]:
    """The model's classes by index; empty where its config names none."""
    named = getattr(getattr(loaded.module, "config", None), "id2label", None) or {}
    return {int(index): str(name) for index, name in named.items()}


def label_of(sample: Sample, names: Sequence[str], classes: dict[int, str]) -> int | None:
    """The sample's class as the model numbers it; None where it has none.

    By name where the model knows all of the dataset's names, else by number.
    """
    if sample.label is None:
        return None
    numbers = {name.lower(): index for index, name in classes.items()}
    said = sample.label_name or (sample.label if isinstance(sample.label, str) else None)
    if said is None and isinstance(sample.label, int) and 0 <= sample.label < len(names):
        said = names[sample.label]
    told = [*names] or ([said] if said else [])
    known = said is not None and said.lower() in numbers
    if said is not None and known and all(name.lower() in numbers for name in told):
        return numbers[said.lower()]
    if not isinstance(sample.label, int):
        raise InputError(
            f"sample {sample.id!r} is labelled {sample.label!r}, which is none of the model's"
            f" classes: {_listed(classes)}; use data labelled with those, or without labels"
        )
    if classes and sample.label not in classes:
        raise InputError(
            f"sample {sample.id!r} is labelled {sample.label}, and the model has"
            f" {len(classes)} classes, 0 to {len(classes) - 1}: {_listed(classes)}; use the data"
            " that the model was trained for"
        )
    return sample.label


def _listed(classes: dict[int, str]) -> str:
    names = [classes[i] for i in sorted(classes)]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


# -- masks -----------------------------------------------------------------------------------------


def masks_of(samples: Sequence[Sample], loaded: Loaded) -> Tensor:
    """1 at the object, 0 at the background, -1 at what is ignored, as the model's crop shows it.

    A mask goes through the steps of its image, with the nearest pixel instead of a mean.
    """
    return torch.stack([_mask(sample, loaded) for sample in samples])


def _mask(sample: Sample, loaded: Loaded) -> Tensor:
    from PIL import Image

    found = sample.extras.get("mask")
    if not isinstance(found, Mask):
        raise InputError(
            f"sample {sample.id!r} has no mask of the object; use a dataset with masks, such as"
            " pets or image_masks, or another metric"
        )
    try:
        values = found.read()
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(
            f"the mask of sample {sample.id!r}, {str(found.source)!r}, cannot be read as an image:"
            f" {first_line(error)}; repair the file"
        ) from error
    channels = channels_of(loaded.module) or 3
    pictured = sample.inputs["image"] if isinstance(sample.inputs, Mapping) else sample.inputs
    size = open_image(pictured, MODES[channels]).size
    if (values.shape[1], values.shape[0]) != size:
        raise InputError(
            f"the mask of sample {sample.id!r} is {values.shape[1]} x {values.shape[0]} pixels and"
            f" its image {size[0]} x {size[1]}; masks have the size of their image"
        )
    grey = Image.fromarray(((values + 1) * 100).astype(numpy.uint8))  # 0, 100, 200
    steps = image_processor_of(loaded.processor, loaded.module)
    if steps is None or isinstance(steps, PlainImages):
        plain = steps or region_grid(loaded.module) or plain_images(loaded.module)
        small = grey.resize((plain.size[1], plain.size[0]), Image.Resampling.NEAREST)
        shown = torch.from_numpy(numpy.array(small)).float()
    else:
        picture = grey.convert(MODES[channels])
        made = steps(
            images=[picture],
            return_tensors="pt",
            do_rescale=False,
            do_normalize=False,
            resample=Image.Resampling.NEAREST,
        )
        shown = made["pixel_values"][0, 0].float()
    # What a processor pads is 0, which stands for ignored.
    return (shown / 100).round().long() - 1


def regions_of(samples: Sequence[Sample], loaded: Loaded) -> Tensor:
    """True at the object, (batch, height, width)."""
    return masks_of(samples, loaded) == 1


# -- rationales ------------------------------------------------------------------------------------


def rationales_of(samples: Sequence[Sample], loaded: Loaded) -> Tensor:
    """Which words a person marked, (batch, words), in the words of the dataset."""
    for sample in samples:
        if "rationale" not in sample.extras or "tokens" not in sample.extras:
            raise InputError(
                f"sample {sample.id!r} has no marked words; use a dataset with rationales, such as"
                " eraser, or another metric"
            )
    longest = max(len(sample.extras["tokens"]) for sample in samples)
    marked = torch.zeros(len(samples), longest, dtype=torch.bool)
    for row, sample in zip(marked, samples, strict=True):
        for start, end in sample.extras["rationale"]:
            row[start:end] = True
    return marked


def in_words_of(attribution: Attribution, samples: Sequence[Sample], loaded: Loaded) -> Attribution:
    """The attribution with the dataset's own words in place of the tokenizer's.

    A tokenizer parts "don't" in three; whoever marked words parted it otherwise.
    """
    name = attribution.main
    stream = attribution.streams[name]
    tokenizer = tokenizer_of(loaded.processor, loaded.module)
    width = stream.mask.shape[1]
    rows = [_words(sample, tokenizer, width) for sample in samples]
    streams = {**attribution.streams, name: replace(stream, word_ids=tuple(rows))}
    return replace(attribution, streams=streams)


def _words(sample: Sample, tokenizer: Any, width: int) -> tuple[int | None, ...]:
    """Which of the dataset's words each token is part of, padded with None."""
    texts = sample.inputs if isinstance(sample.inputs, tuple) else (sample.inputs,)
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            "marked words are compared by where tokens stand in the text, which only a fast"
            " tokenizer tells; load the model's fast tokenizer"
        )
    with tokenizer_scope(tokenizer):
        encoding = tokenizer(*texts, truncation=True, max_length=width, padding=False)
    parts, spans = encoding.sequence_ids(0), encoding.encodings[0].offsets
    # The document is the last text; a query before it has no marks.
    document = len(texts) - 1
    if len(texts) == 2 and sample.extras.get("query") not in texts:
        document = -1  # two documents: their words are counted through
    starts = [_starts(text) for text in texts]
    counted: list[int | None] = []
    for part, (begin, end) in zip(parts, spans, strict=True):
        piece = "" if part is None else texts[part][begin:end]
        # Some tokenizers count the space before a word as its first letter.
        begin += len(piece) - len(piece.lstrip(" "))
        if end <= begin or (document >= 0 and part != document):
            counted.append(None)
            continue
        before = len(starts[0]) if document == -1 and part == 1 else 0
        counted.append(before + _word_at(starts[part], begin))
    return tuple(counted[:width] + [None] * (width - len(counted)))


def _starts(text: str) -> list[int]:
    """Where each word of a text begins; one space is between words."""
    found, at = [], 0
    for word in text.split(" "):
        found.append(at)
        at += len(word) + 1
    return found


def _word_at(starts: list[int], place: int) -> int:
    from bisect import bisect_right

    return bisect_right(starts, place) - 1


PROVIDERS: dict[str, Callable[[Sequence[Sample], Loaded], Tensor]] = {
    "masks": masks_of,
    "regions": regions_of,
    "rationales": rationales_of,
}
