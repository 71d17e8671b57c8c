"""From whatever the user passed to exactly what the model's forward takes."""

from __future__ import annotations

from typing import Any

from torch import nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import kind_of, samples_of, texts_of
from whyformer.inputs.images import read_images
from whyformer.inputs.streams import read_streams
from whyformer.inputs.tensors import read_mapping, read_tensor
from whyformer.inputs.text import read_texts
from whyformer.models.families import Family
from whyformer.models.processors import check_processor, image_processor_of, tokenizer_of
from whyformer.models.signature import forward_of, stream_of

FITTING = {"text": ("text", "tokens"), "image": ("image", "tokens")}


def prepare(
    inputs: Any,
    module: nn.Module,
    processor: Any = None,
    family: Family | None = None,
    truncation: bool = False,
    carrier: str | None = None,
) -> Batch:
    """The inputs as one batch of arguments, with tokens, mask, grid and pixels beside them.

    `carrier` names the argument that carries tokens where the module is of an unknown kind.
    """
    processor = check_processor(processor)
    forward = forward_of(module)
    if carrier is not None and not forward.takes(carrier):
        raise InputError(
            f"the forward of {forward.owner} takes no argument {carrier!r}; it takes"
            f" {', '.join(forward.names)}"
        )
    if family is not None and family.sources:
        return read_streams(inputs, module, forward, family, processor, truncation)
    stream = stream_of(module, family)
    kind = kind_of(inputs, stream)
    if kind == "mapping":
        return read_mapping(inputs, module, forward, stream, processor, carrier)
    if kind == "tensor":
        return read_tensor(inputs, module, forward, stream, processor, carrier)
    items = samples_of(inputs, stream)
    if stream not in FITTING[kind]:
        raise InputError(
            f"the inputs are {kind} ({type(items[0]).__name__}) and {forward.owner} reads"
            f" {stream}; pass {stream}, or another model="
        )
    if kind == "text":
        tokenizer = tokenizer_of(processor, module)
        return read_texts(texts_of(inputs), module, forward, tokenizer, truncation)
    return read_images(items, module, forward, image_processor_of(processor, module))
