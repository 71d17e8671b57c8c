"""Read tensors and mappings of forward's arguments, and check them before the model runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.batch import NOT_PER_SAMPLE, Batch
from whyformer.inputs.features import video_batch
from whyformer.inputs.finite import check_finite
from whyformer.inputs.images import channels_of, image_batch, patch_of
from whyformer.inputs.packed import packed_batch, packed_carrier
from whyformer.inputs.padding import pad_rows, padding_id
from whyformer.inputs.sequence import Groups, Sequences, move_to_module
from whyformer.inputs.text import word_groups
from whyformer.models.families import family_of
from whyformer.models.processors import image_processor_of, tokenizer_of
from whyformer.models.signature import Forward, config_of, main_argument

# What tokenizers return in addition; ignored if forward does not take it.
BY_PRODUCTS = (
    "token_type_ids",
    "special_tokens_mask",
    "offset_mapping",
    "length",
    "overflow_to_sample_mapping",
)
# The arguments that can carry a stream's tokens.
CARRIERS = {"text": ("input_ids", "inputs_embeds"), "image": ("pixel_values",)}


def name_tensor(
    value: Any, forward: Forward, stream: str, carrier: str | None
) -> dict[str, Tensor]:
    """Return {argument: tensor} for a single tensor; its dtype and rank tell the argument."""
    tensor = to_tensor(value, "the input")
    whole = not tensor.is_floating_point() and not tensor.is_complex()
    shape = tuple(tensor.shape)
    if carrier is not None:
        name = carrier
    elif stream == "text":
        if whole and tensor.dtype != torch.bool and tensor.ndim in (1, 2):
            name = "input_ids"
        elif not whole and tensor.ndim == 3 and forward.takes("inputs_embeds"):
            name = "inputs_embeds"
        else:
            raise InputError(
                f"a tensor of {tensor.dtype} with shape {shape} was given to a text model; expected"
                " token ids: integers of rank 2 (batch, tokens), or rank 1 for one text; or"
                " embeddings: floating numbers of rank 3 (batch, tokens, hidden)",
                argument="inputs",
            )
    elif stream == "image":
        name = "pixel_values"
        tensor = tensor.unsqueeze(0) if tensor.ndim == 3 else tensor
    else:
        name = forward.carrier("input_ids")
        if tensor.ndim < 2:
            raise InputError(
                f"a tensor of rank {tensor.ndim} with shape {shape} was given to"
                f" {forward.owner}; expected rank 2 (batch, tokens), rank 3 (batch, tokens,"
                " features) or rank 4 (batch, channels, height, width)",
                argument="inputs",
            )
    return {name: tensor}


def read_mapping(
    mapping: Mapping[str, Any],
    module: nn.Module,
    forward: Forward,
    stream: str,
    processor: Any,
    carrier: str | None,
) -> Batch:
    """Return a batch from a mapping of forward's arguments."""
    passed = known_arguments(mapping, forward)
    carrier = carrier or _carrier(passed, forward, stream, module)
    if passed.get(carrier) is None:
        raise InputError(
            f"the mapping has no '{carrier}', which carries the tokens; it has"
            f" {quote_names(passed)}",
            argument="inputs",
            remedy=f"Add '{carrier}', or pass tokens= with another argument's name",
        )
    tokenizer = tokenizer_of(processor, module) if stream != "image" else None
    if stream == "text":
        mask = "attention_mask" if forward.takes("attention_mask") else None
        passed = pad_to_one_length(passed, carrier, module, tokenizer, mask)
    arguments = {
        name: to_tensor(value, f"'{name}'") if is_array(value) else value
        for name, value in passed.items()
    }
    check_tensor(arguments[carrier], carrier)
    main: Tensor = arguments[carrier]
    if stream == "text" and not main.is_floating_point():
        arguments = {**arguments, carrier: main.long()}
    patches = _patch_mask(arguments, main) if stream == "image" else None
    single = {"text": 2 if main.is_floating_point() else 1, "image": 3}.get(stream)
    single = single if patches is None else None
    arguments = add_batch_axis(arguments, carrier, single)
    main = arguments[carrier]
    if main.numel() == 0:
        raise InputError(
            f"'{carrier}' is empty: its shape is {tuple(main.shape)}",
            argument="inputs",
            remedy="Pass at least one sample with at least one token",
        )
    check_finite(arguments)
    if packed_carrier(arguments, forward) == carrier:
        return packed_batch(arguments, carrier, module)
    _check_batch(arguments, carrier, stream)
    if main.ndim == 5 and main.is_floating_point() and _may_read_video(module):
        return video_batch(arguments, carrier, module)
    if patches is None and (stream == "image" or _is_picture(main, module, stream)):
        found = image_processor_of(processor, module)
        return image_batch(arguments, carrier, module, forward, found)
    if stream == "text":
        check_rank(main, carrier)
    elif tokenizer is not None and not main.is_floating_point() and main.ndim == 2:
        stream = "text"
    return Sequences(
        arguments=move_to_module(arguments, module),
        carrier=carrier,
        module=module,
        forward=forward,
        stream=stream,
        tokenizer=tokenizer,
        groups=word_groups_in(mapping, carrier) if stream == "text" else None,
        mask_name=patches or "attention_mask",
    ).batch()


def _may_read_video(module: nn.Module) -> bool:
    """Whether a transformers model is of no family: a family declares what its images look like."""
    return config_of(module) is not None and family_of(module) is None


def _patch_mask(arguments: Mapping[str, Any], pixels: Tensor) -> str | None:
    """The argument with one entry per patch, if the pixels come as patches: (batch, patch, width).

    SigLIP 2 takes images of any shape that way.
    """
    for name, value in arguments.items():
        fits = isinstance(value, Tensor) and name.endswith("_mask") and pixels.ndim == 3
        if fits and value.shape == pixels.shape[:2]:
            return name
    return None


def to_tensor(value: Any, name: str) -> Tensor:
    """Return the value as a tensor; raise InputError if its rows have different lengths."""
    if isinstance(value, Tensor):
        return value
    try:
        return torch.tensor(numpy.asarray(value) if isinstance(value, numpy.ndarray) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} cannot be made a tensor: {error}",
            argument="inputs",
            remedy="Pass numbers in rows of one length",
        ) from error


def known_arguments(mapping: Mapping[str, Any], forward: Forward) -> dict[str, Any]:
    """Return the entries that forward takes; raise InputError if there are others.

    Entries that are None, and what tokenizers return in addition, are dropped.
    """
    if not mapping:
        raise InputError(
            "the mapping is empty",
            argument="inputs",
            remedy=f"Pass what the forward of {forward.owner} takes: {', '.join(forward.names)}",
        )
    unknown = [key for key in mapping if not forward.takes(key) and key not in BY_PRODUCTS]
    if unknown:
        raise InputError(
            f"the mapping has {quote_names(unknown)}, which the forward of {forward.owner} does not"
            f" take; it takes {', '.join(forward.names)}",
            argument="inputs",
            remedy="Remove what it does not take",
        )
    return {k: v for k, v in mapping.items() if forward.takes(k) and v is not None}


def _carrier(arguments: Mapping[str, Any], forward: Forward, stream: str, module: nn.Module) -> str:
    """The key of the tokens or pixels."""
    usual = CARRIERS.get(stream)
    if usual is None and (named := main_argument(module)) and config_of(module) is not None:
        usual = (named,)
    arrays = [key for key, value in arguments.items() if is_array(value)]
    if usual is None:
        # In the order of forward's arguments; in the mapping's if forward takes any keyword.
        usual = tuple(name for name in forward.names if name in arrays) or tuple(arrays)
    present = [name for name in usual if name in arguments]
    if not present:
        missing = " or ".join(repr(name) for name in usual) or "a tensor of tokens"
        raise InputError(
            f"the mapping has {quote_names(arguments) or 'no tensors'} and lacks {missing}",
            argument="inputs",
            remedy=f"Pass what the forward of {forward.owner} takes: {', '.join(forward.names)}",
        )
    if stream == "text" and len(present) > 1:
        raise InputError(
            f"the mapping has both {present[0]!r} and {present[1]!r}; the model takes one of them",
            argument="inputs",
            remedy="Remove one of them",
        )
    return present[0]


def pad_to_one_length(
    arguments: dict[str, Any], carrier: str, module: nn.Module, tokenizer: Any, mask: str | None
) -> dict[str, Any]:
    """Return the arguments with lists of token rows padded to one length, and with a mask."""
    rows = arguments[carrier]
    if not _is_rows(rows) or len({len(row) for row in rows}) < 2:
        return arguments
    lengths = [len(row) for row in rows]
    if mask is None:
        raise InputError(
            f"'{carrier}' has rows of {min(lengths)} to {max(lengths)} tokens and the forward of"
            f" {type(module).__name__} takes no attention_mask",
            argument="inputs",
            remedy="Pass rows of one length",
        )
    arguments = {mask: [[1] * length for length in lengths], **arguments}
    fills = {carrier: padding_id(module, tokenizer)}
    return {
        name: pad_rows(value, fills.get(name, 0))
        if _is_rows(value) and [len(row) for row in value] == lengths
        else value
        for name, value in arguments.items()
    }


def add_batch_axis(arguments: dict[str, Any], carrier: str, single: int | None) -> dict[str, Any]:
    """Return the arguments with a batch axis, if the carrier has rank `single`: one sample."""
    main: Tensor = arguments[carrier]
    if main.ndim != single:
        return arguments
    return {
        name: value.unsqueeze(0)
        if isinstance(value, Tensor) and 0 < value.ndim <= main.ndim and name not in NOT_PER_SAMPLE
        else value
        for name, value in arguments.items()
    }


def _check_batch(arguments: Mapping[str, Any], carrier: str, stream: str) -> None:
    """Raise InputError if the tensors have different numbers of samples."""
    batch = arguments[carrier].shape[0]
    if stream == "tokens":
        return  # The batch axis of an unknown model is not known.
    for name, value in arguments.items():
        if not isinstance(value, Tensor) or value.ndim == 0 or name in NOT_PER_SAMPLE:
            continue
        # Dual encoders take different numbers of texts and images.
        other = {name, carrier} == {"input_ids", "pixel_values"}
        shared = name == "position_ids" and value.shape[0] == 1
        if value.shape[0] != batch and not other and not shared:
            raise InputError(
                f"'{name}' has {value.shape[0]} samples in shape {tuple(value.shape)} and"
                f" '{carrier}' has {batch} in shape {tuple(arguments[carrier].shape)}",
                argument="inputs",
                remedy="Pass the same number of each",
            )


def check_rank(main: Tensor, carrier: str) -> None:
    """Raise InputError if token ids or embeddings do not have the axes of a batch of texts."""
    rank = 3 if carrier == "inputs_embeds" else 2
    floating = carrier == "inputs_embeds"
    if main.ndim != rank or main.is_floating_point() != floating:
        axes = "(batch, tokens, hidden)" if floating else "(batch, tokens)"
        raise InputError(
            f"'{carrier}' is a tensor of {main.dtype} with shape {tuple(main.shape)}; expected"
            f" {'floating numbers' if floating else 'integers'} of rank {rank} {axes}, or rank"
            f" {rank - 1} for one text",
            argument="inputs",
        )


def _is_picture(main: Tensor, module: nn.Module, stream: str) -> bool:
    """Whether a module of no known family cuts this tensor into patches."""
    return (
        stream == "tokens"
        and main.is_floating_point()
        and main.ndim == 4
        and patch_of(module) is not None
        and channels_of(module) == main.shape[1]
    )


def word_groups_in(mapping: Mapping[str, Any], carrier: str) -> Groups | None:
    """The word of each token, if the mapping is the output of a fast tokenizer."""
    rows = mapping.get(carrier)
    if not getattr(mapping, "is_fast", False) or rows is None or not hasattr(rows[0], "__len__"):
        return None
    groups = [word_groups(mapping, index) for index in range(len(rows))]
    width = max(map(len, rows))
    return groups if all(g is None or len(g) == width for g in groups) else None


def check_tensor(value: Any, name: str) -> None:
    """Raise InputError if the value is not a tensor."""
    if not isinstance(value, Tensor):
        raise InputError(
            f"'{name}' is of type {type(value).__name__}",
            argument="inputs",
            remedy="Pass a tensor",
        )


def is_array(value: Any) -> bool:
    """Whether the value can be made a tensor."""
    return isinstance(value, Tensor | numpy.ndarray | list | tuple)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(r, Sequence) for r in value)


def quote_names(names: Any) -> str:
    """The names in quotes, separated by commas."""
    return ", ".join(repr(name) for name in names)
