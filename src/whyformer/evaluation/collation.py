"""Samples of a dataset as one batch of inputs for `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from whyformer.datasets import Sample
from whyformer.errors import InputError
from whyformer.inputs.images import open_image
from whyformer.inputs.text import text_arguments
from whyformer.models.families import Source
from whyformer.models.load import Loaded
from whyformer.models.processors import tokenizer_of
from whyformer.models.signature import forward_of


def inputs_of(samples: Sequence[Sample], loaded: Loaded) -> Any:
    """A list of the samples' inputs; arguments of forward if the samples have region features."""
    if "features" in samples[0].extras:
        return _with_regions(samples, loaded)
    return [sample.inputs for sample in samples]


def _with_regions(samples: Sequence[Sample], loaded: Loaded) -> dict[str, Any]:
    """Token ids of the questions, with the features and boxes of each image's regions."""
    module = loaded.module
    family = loaded.family
    sources = {s.kind: s for s in family.sources} if family else {}
    if "features" not in sources or "ids" not in sources:
        raise InputError(
            f"sample {samples[0].id!r} has features of image regions, which"
            f" {type(module).__name__} does not take",
            argument="samples",
            remedy="Use samples with images only, or a model such as LXMERT",
        )
    texts = [_question(sample) for sample in samples]
    tokenizer = tokenizer_of(loaded.processor, module)
    arguments, _, _ = text_arguments(texts, module, forward_of(module), tokenizer, True)
    source = sources["features"]
    features = [_tensor(sample.extras["features"]) for sample in samples]
    widths = sorted({rows.shape[1] for rows in features})
    if len(widths) > 1:
        raise InputError(
            f"regions have {widths[0]} features in one image and {widths[-1]} in another",
            argument="samples",
            remedy="Use features of one detector for all images",
        )
    arguments[source.carrier] = pad_sequence(features, batch_first=True)
    counts = torch.tensor([len(rows) for rows in features])
    if bool((counts < counts.max()).any()):
        if not source.mask:
            raise InputError(
                f"samples have {int(counts.min())} to {int(counts.max())} regions, and"
                f" {type(module).__name__} takes no mask of them",
                argument="samples",
                remedy="Use the same number of regions for every image",
            )
        real = torch.arange(int(counts.max())) < counts.unsqueeze(1)
        arguments[source.mask] = real.float()
    return arguments | _boxes(samples, source)


def _boxes(samples: Sequence[Sample], source: Source) -> dict[str, Tensor]:
    if not source.boxes:
        return {}
    found = []
    for sample in samples:
        height, width = _size(sample)
        scale = torch.tensor([width, height, width, height], dtype=torch.float32)
        found.append(_tensor(sample.extras["boxes"]) / scale)
    return {source.boxes: pad_sequence(found, batch_first=True)}


def _question(sample: Sample) -> str:
    question = sample.inputs.get("text") if isinstance(sample.inputs, Mapping) else sample.inputs
    if not isinstance(question, str):
        raise InputError(
            f"sample {sample.id!r} has regions but no question",
            argument="samples",
            remedy="Add the question as the sample's text",
        )
    return question


def _size(sample: Sample) -> tuple[int, int]:
    """(height, width) of the image that the boxes refer to."""
    if "size" in sample.extras:
        height, width = sample.extras["size"]
        return int(height), int(width)
    image = sample.inputs.get("image") if isinstance(sample.inputs, Mapping) else None
    if image is None:
        raise InputError(
            f"sample {sample.id!r} has boxes in pixels, and the size of its image is unknown",
            argument="samples",
            remedy="Add the images, or use features in a .tsv file, which has the sizes",
        )
    width, height = open_image(image, "RGB").size
    return height, width


def _tensor(values: Any) -> Tensor:
    # A copy: an array that was read from a file may be read-only, which torch warns about.
    return torch.from_numpy(numpy.array(values, dtype=numpy.float32))
