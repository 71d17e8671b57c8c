"""Prepare the user's inputs as a `Batch`: exactly what the model's forward takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Batch
from whyformer.inputs.chat import read_chats
from whyformer.inputs.detect import is_chats, kind_of, samples_of, texts_of
from whyformer.inputs.images import read_images
from whyformer.inputs.raw_inputs import read_raw_inputs
from whyformer.inputs.streams import read_streams
from whyformer.inputs.tensors import name_tensor, read_mapping
from whyformer.inputs.text import read_rows, read_texts
from whyformer.models.families import Family
from whyformer.models.processors import check_processor, image_processor_of, tokenizer_of
from whyformer.models.signature import forward_of, positions_of, stream_of

# The streams that inputs of a kind can go to.
STREAMS_OF_KIND = {"text": ("text", "tokens"), "image": ("image", "tokens")}


def prepare(
    inputs: Any,
    module: nn.Module,
    processor: Any = None,
    family: Family | None = None,
    truncation: bool = False,
    carrier: str | None = None,
    kind: str | None = None,
) -> Batch:
    """Return the inputs as one batch, with tokens, mask, grid and pixels.

    Args:
        inputs: Texts, chats, images, a tensor, or a mapping; see `explain`.
        module: The model.
        processor: Its tokenizer, image processor, or both.
        family: The family that the model belongs to, if any.
        truncation: Cut texts that are too long, instead of raising InputError.
        carrier: The argument of forward that carries the tokens, for a model of no known family.
        kind: What `kind_of` returned for the inputs; detected if None.

    Raises:
        InputError: The model cannot read the inputs.
    """
    processor = check_processor(processor)
    forward = forward_of(module)
    if carrier is not None and not forward.takes(carrier):
        raise InputError(
            f"the forward of {forward.owner} takes no argument {carrier!r}; it takes"
            f" {', '.join(forward.names)}",
            argument="tokens",
            remedy="Pass one of these as tokens=",
        )
    if is_chats(inputs):
        return _prepare_chats(inputs, module, processor, family, carrier)
    if family is not None and family.sources:
        raw = read_raw_inputs(inputs, module, forward, family, processor, truncation)
        return read_streams(raw, module, forward, family, processor)
    stream = stream_of(module, family)
    kind = kind or kind_of(inputs, stream)
    if kind in ("mapping", "tensor"):
        is_mapping = kind == "mapping"
        mapping = inputs if is_mapping else name_tensor(inputs, forward, stream, carrier)
        if stream in ("image", "audio") and mapping.get("input_ids") is not None:
            stream = "text"  # the image or sound is read at its placeholders in the text
        return read_mapping(mapping, module, forward, stream, processor, carrier)
    samples = samples_of(inputs, stream)
    if stream not in STREAMS_OF_KIND.get(kind, ()):
        raise InputError(
            f"the inputs are {kind} ({type(samples[0]).__name__}) and {forward.owner} reads"
            f" {stream}",
            argument="inputs",
            remedy=f"Pass {stream}, or another model=",
        )
    if kind == "text":
        tokenizer = tokenizer_of(processor, module)
        return read_texts(texts_of(inputs), module, forward, tokenizer, truncation)
    return read_images(samples, module, forward, image_processor_of(processor, module))


def _prepare_chats(
    inputs: Any, module: nn.Module, processor: Any, family: Family | None, carrier: str | None
) -> Batch:
    """The chats as one batch, with the tokens of each message."""
    forward, stream = forward_of(module), stream_of(module, family)
    chats = read_chats(inputs, module, processor)
    rows = chats.arguments["input_ids"]
    limit, longest = positions_of(module), max(map(len, rows))
    if limit is not None and longest > limit:
        raise InputError(
            f"the chat has {longest} tokens with its template, the model takes {limit}",
            argument="inputs",
            remedy="Shorten or leave out messages",
        )
    if stream == "text" and chats.groups is not None and not (family and family.sources):
        batch = read_rows(rows, chats.groups, module, forward, tokenizer_of(processor, module))
    else:
        batch = prepare(chats.arguments, module, processor, family, carrier=carrier)
    return replace(batch, roles=chats.roles)
