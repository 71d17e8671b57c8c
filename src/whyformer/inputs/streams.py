"""Prepare the inputs of a model with several streams: one stream at a time, then merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Batch
from whyformer.inputs.features import feature_batch, number_batch
from whyformer.inputs.finite import check_finite
from whyformer.inputs.images import image_batch
from whyformer.inputs.placeholders import add_kinds, place_soft_tokens
from whyformer.inputs.raw_inputs import STREAM_NAMES, RawInputs
from whyformer.inputs.sequence import Sequences, move_to_module
from whyformer.inputs.tensors import (
    add_batch_axis,
    check_rank,
    check_tensor,
    is_array,
    pad_to_one_length,
    quote_names,
    to_tensor,
)
from whyformer.inputs.tiled_images import tiled_batch
from whyformer.models.families import Family, Source
from whyformer.models.processors import image_processor_of, tokenizer_of
from whyformer.models.signature import Forward


def read_streams(
    raw: RawInputs, module: nn.Module, forward: Forward, family: Family, processor: Any
) -> Batch:
    """Return all streams of the family as one batch."""
    arguments = dict(raw.arguments)
    for source in family.sources:
        if arguments.get(source.carrier) is None and not source.optional:
            raise _missing_stream(source, family, forward.owner, arguments)
    sources = [s for s in family.sources if arguments.get(s.carrier) is not None]
    arguments = _match_sizes(_tensors(arguments, sources, module, processor), sources)
    arguments = add_kinds(arguments, module, family)
    check_finite(arguments)
    read = {
        source.stream: _read_stream(source, arguments, module, forward, processor, raw)
        for source in sources
    }
    owned = {name for source in sources for name in _argument_names(source)}
    rest = move_to_module({k: v for k, v in arguments.items() if k not in owned}, module)
    if "use_cache" in forward.names:
        rest.setdefault("use_cache", False)
    main = read.pop(family.stream)
    merged: dict[str, Any] = dict(rest)
    baseline: dict[str, Any] = dict(rest)
    for one in (main, *read.values()):
        merged |= one.arguments
        baseline |= one.baseline_arguments
    batch = replace(
        main,
        arguments=merged,
        baseline_arguments=baseline,
        tokenizer=main.tokenizer or tokenizer_of(processor, module),
        notes=(*main.notes, *raw.notes),
        others=read,
    )
    return place_soft_tokens(batch, module, family, processor) if family.soft else batch


# -- one stream at a time --------------------------------------------------------------------------


def _argument_names(source: Source) -> tuple[str, ...]:
    return (source.carrier, *source.beside, *([source.mask] if source.mask else ()))


def _tensors(
    arguments: Mapping[str, Any], sources: Sequence[Source], module: nn.Module, processor: Any
) -> dict[str, Any]:
    """The arguments with every list and array as a tensor, samples first."""
    tensors = dict(arguments)
    for source in sources:
        own = {
            name: tensors[name] for name in _argument_names(source) if tensors.get(name) is not None
        }
        if source.kind == "ids":
            tokenizer = tokenizer_of(processor, module)
            part = source.submodule(module)
            own = pad_to_one_length(own, source.carrier, part, tokenizer, source.mask)
        made = {k: to_tensor(v, f"'{k}'") if is_array(v) else v for k, v in own.items()}
        check_tensor(made[source.carrier], source.carrier)
        if source.kind == "ids" and not made[source.carrier].is_floating_point():
            made[source.carrier] = made[source.carrier].long()
        rank = _RANKS.get(source.kind)
        tensors |= made if rank is None else add_batch_axis(made, source.carrier, rank - 1)
    return {k: to_tensor(v, f"'{k}'") if is_array(v) else v for k, v in tensors.items()}


_RANKS = {"ids": 2, "pixels": 4, "features": 3, "frames": 3, "sound": 3, "waveform": 2, "video": 5}


def _match_sizes(arguments: dict[str, Any], sources: Sequence[Source]) -> dict[str, Any]:
    """The arguments with the same number of samples in every stream; one sample is repeated."""
    counts = {s.carrier: len(arguments[s.carrier]) for s in sources}
    batch = max(counts.values())
    many = [name for name, count in counts.items() if count == batch]
    for source in sources:
        own = counts[source.carrier]
        if own == 0:
            raise InputError(
                f"'{source.carrier}' is empty", argument="inputs", remedy="Pass at least one sample"
            )
        if own not in (1, batch):
            raise InputError(
                f"'{source.carrier}' has {own} samples and '{many[0]}' has {batch}",
                argument="inputs",
                remedy="Pass the same number of each, or one that is used for all",
            )
        for name in _argument_names(source):
            value = arguments.get(name)
            if not isinstance(value, Tensor) or value.ndim == 0:
                continue
            if len(value) not in (own, 1):
                raise InputError(
                    f"'{name}' has {len(value)} samples in shape {tuple(value.shape)} and"
                    f" '{source.carrier}' has {own} in shape"
                    f" {tuple(arguments[source.carrier].shape)}",
                    argument="inputs",
                    remedy="Pass the same number of each",
                )
            if len(value) != batch:
                arguments[name] = value.expand(batch, *value.shape[1:])
    return arguments


def _read_stream(
    source: Source,
    arguments: Mapping[str, Any],
    module: nn.Module,
    forward: Forward,
    processor: Any,
    raw: RawInputs,
) -> Batch:
    """One stream as a batch."""
    own = {
        name: arguments[name] for name in _argument_names(source) if arguments.get(name) is not None
    }
    part = source.submodule(module)
    if source.kind == "ids":
        check_rank(own[source.carrier], source.carrier)
        mask = own.get(source.mask) if source.mask else None
        _check_padding(source, mask, module, "texts")
        return Sequences(
            arguments=move_to_module(own, module),
            carrier=source.carrier,
            module=part,
            forward=forward,
            stream=source.stream,
            tokenizer=tokenizer_of(processor, module),
            groups=raw.groups.get(source.stream),
            mask_name=source.mask or "attention_mask",
        ).batch()
    if source.kind == "pixels":
        found = raw.image_processors.get(source.stream) or image_processor_of(processor, module)
        images = image_batch(own, source.carrier, part, forward, found)
        return _mark_padding(images, source)
    if source.kind == "tiles":
        return tiled_batch(source, arguments, module, image_processor_of(processor, module))
    if source.kind == "numbers":
        return number_batch(source, own, module, image_processor_of(processor, module))
    _check_padding(source, own.get(source.mask or ""), module, "samples")
    return feature_batch(source, own, module, raw.pictures.get(source.stream))


def _check_padding(source: Source, mask: Any, module: nn.Module, samples: str) -> None:
    """Raise InputError if there is padding that the model would read."""
    if source.allows_padding(module) or not isinstance(mask, Tensor) or bool((mask != 0).all()):
        return
    raise InputError(
        f"{type(module).__name__} reads the padding of '{source.carrier}' and ignores"
        f" '{source.mask}': padding would change the result",
        argument="inputs",
        remedy=f"Explain {samples} of one length together, or one at a time, without padding",
    )


def _mark_padding(batch: Batch, source: Source) -> Batch:
    """An image stream with a mask, because the model leaves out patches of padding."""
    pixels = batch.arguments.get(source.mask) if source.mask else None
    if not isinstance(pixels, Tensor) or bool((pixels != 0).all()):
        return batch
    if batch.grid is None:
        return replace(batch, pixel_mask=pixels)
    patches = F.interpolate(pixels.float().unsqueeze(1), size=batch.grid).flatten(1) > 0
    counts = patches.sum(1)
    places = torch.arange(int(counts.max()), device=counts.device)
    return replace(batch, mask=places < counts.unsqueeze(1), grid=None)


def _missing_stream(
    source: Source, family: Family, owner: str, arguments: Mapping[str, Any]
) -> InputError:
    """The error for a stream that was not passed."""
    streams = " and ".join(s.stream for s in family.sources if not s.optional)
    missing = STREAM_NAMES.get(source.stream, source.stream)
    return InputError(
        f"{owner} reads {streams}, and the inputs lack {missing} ('{source.carrier}'): they have"
        f" {quote_names(arguments) or 'nothing'}",
        argument="inputs",
        remedy="Pass every stream, as a mapping of streams or of what forward takes",
    )
