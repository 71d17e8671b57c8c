"""Streams of a model that no family covers: found by what runs, before its inputs are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.attribution import Reason
from whyformer.engine.scope import borrow_model
from whyformer.engine.stacks import carriers_of, several_streams
from whyformer.engine.stream_search import search_streams
from whyformer.errors import WhyformerError
from whyformer.inputs.sequence import move_to_module
from whyformer.inputs.tensors import is_array, known_arguments, to_tensor
from whyformer.models.families import Family, Source
from whyformer.models.load import Loaded
from whyformer.models.signature import forward_of
from whyformer.targets.output_ids import special_id

OUTPUT = Source("generated", "decoder_input_ids", mask="decoder_attention_mask", optional=True)


def with_found_streams(loaded: Loaded, inputs: Any) -> Loaded:
    """Return the model with the streams that the inputs bring, if it has several undeclared ones.

    Inputs that cannot be read are left to `prepare`, which says what is wrong with them.
    """
    if loaded.family is not None or not isinstance(inputs, Mapping):
        return loaded
    try:
        known = known_arguments(inputs, forward_of(loaded.module))
        tensors = {k: to_tensor(v, k) if is_array(v) else v for k, v in known.items()}
    except WhyformerError:
        return loaded
    arguments = move_to_module(tensors, loaded.module)
    if not several_streams(loaded.module, arguments):
        return loaded
    with borrow_model(loaded.module):
        arguments = _start_output(loaded.module, arguments)
        return replace(loaded, found=search_streams(loaded.module, arguments))


def _start_output(module: nn.Module, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the first token of the output, if the model has yet to write it."""
    config, forward = getattr(module, "config", None), forward_of(module)
    writes = getattr(config, "is_encoder_decoder", False) is True and hasattr(module, "generate")
    takes = all(forward.takes(name) for name in (OUTPUT.carrier, OUTPUT.mask or ""))
    carriers = carriers_of(arguments)
    if not (writes and takes and carriers) or any(name.startswith("decoder") for name in arguments):
        return arguments
    start = special_id(module, OUTPUT, "start")
    if start is None:
        return arguments
    value: Tensor = arguments[carriers[0]]
    first = torch.full((len(value), 1), start, device=value.device)
    return {**arguments, OUTPUT.carrier: first}


def found_reason(family: Family) -> Reason:
    """Return the note about streams that nobody declared."""
    places = [f"{', '.join(s.streams)} at '{s.paths[0]}'" for s in family.stacks]
    return Reason(
        "layers",
        "note",
        "No family declares this model: its token streams were found by what ran"
        f" ({'; '.join(places)}). What computes token states before these blocks is not explained.",
    )
