"""Samples of a dataset as one input of `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from whyformer.datasets import Sample
from whyformer.errors import InputError
from whyformer.families import Source, family_of
from whyformer.inputs.forward import forward_of
from whyformer.inputs.images import open_image
from whyformer.inputs.models import Loaded
from whyformer.inputs.processors import tokenizer_of
from whyformer.inputs.text import text_arguments


def inputs_of(samples: Sequence[Sample], loaded: Loaded) -> Any:
    """A list of what each sample says; arguments of forward where regions come as numbers."""
    if "features" in samples[0].extras:
        return _with_regions(samples, loaded)
    return [sample.inputs for sample in samples]


def _with_regions(samples: Sequence[Sample], loaded: Loaded) -> dict[str, Any]:
    """Questions as token ids beside the features and boxes of each image's regions."""
    module = loaded.module
    family = family_of(module)
    sources = {s.kind: s for s in family.sources} if family else {}
    if "features" not in sources or "ids" not in sources:
        raise InputError(
            f"sample {samples[0].id!r} comes with features of image regions, which"
            f" {type(module).__name__} does not read; give the images alone, or a model such as"
            " LXMERT"
        )
    texts = [_question(sample) for sample in samples]
    tokenizer = tokenizer_of(loaded.processor, module)
    arguments, _, _ = text_arguments(texts, module, forward_of(module), tokenizer, True)
    counts = {len(sample.extras["features"]) for sample in samples}
    if len(counts) > 1:
        raise InputError(
            f"samples have {min(counts)} to {max(counts)} regions; give as many for every image"
        )
    source = sources["features"]
    arguments[source.carrier] = torch.stack([_tensor(s.extras["features"]) for s in samples])
    return arguments | _boxes(samples, source)


def _boxes(samples: Sequence[Sample], source: Source) -> dict[str, Tensor]:
    if not source.boxes:
        return {}
    found = []
    for sample in samples:
        height, width = _size(sample)
        scale = torch.tensor([width, height, width, height], dtype=torch.float32)
        found.append(_tensor(sample.extras["boxes"]) / scale)
    return {source.boxes: torch.stack(found)}


def _question(sample: Sample) -> str:
    asked = sample.inputs.get("text") if isinstance(sample.inputs, Mapping) else sample.inputs
    if not isinstance(asked, str):
        raise InputError(f"sample {sample.id!r} has regions and no question")
    return asked


def _size(sample: Sample) -> tuple[int, int]:
    """(height, width) of the image that the regions are of."""
    if "size" in sample.extras:
        height, width = sample.extras["size"]
        return int(height), int(width)
    image = sample.inputs.get("image") if isinstance(sample.inputs, Mapping) else None
    if image is None:
        raise InputError(
            f"sample {sample.id!r} has boxes in pixels and no image: how large it is must be known;"
            " give the images too, or features as a .tsv, which tells it"
        )
    width, height = open_image(image, "RGB").size
    return height, width


def _tensor(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32)
