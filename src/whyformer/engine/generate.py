"""Generate text as the model's generation config says, reproducibly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import TargetError
from whyformer.inputs.sequence import narrow_to_module
from whyformer.models.quiet import ignore_warnings, quiet_transformers
from whyformer.models.signature import device_and_dtype
from whyformer.models.undo import keep_random_state

SEED = 0  # of the random numbers, if the model samples and the user names none


def generate_ids(
    module: nn.Module, arguments: Mapping[str, Any], seed: int | None = None, **settings: Any
) -> Tensor:
    """Return the ids that the model generates, (batch, tokens).

    Args:
        module: The model.
        arguments: What `generate` takes; prompts are padded left.
        seed: Of the random numbers, if the generation config says that the model samples.
        **settings: Settings of `generate` that replace those of the generation config.

    Raises:
        TargetError: The model cannot generate, or its settings give what cannot be explained.
    """
    generate: Any = getattr(module, "generate", None)
    name = type(module).__name__
    if generate is None:
        raise TargetError(
            f"{name} cannot generate text",
            argument="head",
            remedy="Pass the ids of the generated tokens as target, or the decoder's inputs",
        )
    config = getattr(module, "generation_config", None)
    several = getattr(config, "num_return_sequences", None) or 1
    if several != 1:
        raise TargetError(
            f"the generation config of {name} asks for {several} texts per prompt"
            " (num_return_sequences), and one is explained",
            argument="head",
            remedy="Set model.generation_config.num_return_sequences = 1, or pass the text as"
            " target",
        )
    own = narrow_to_module(arguments, module)
    own.pop("use_cache", None)
    advice = ignore_warnings(UserWarning)  # on the user's settings
    with torch.no_grad(), quiet_transformers(), advice, _seeded(module, seed):
        try:
            found = generate(**own, **settings)
        except Exception as error:  # the model's own code, with the user's settings
            raise TargetError(
                f"{name} could not generate text: {type(error).__name__}: {error}",
                argument="head",
                remedy="Pass the text to explain as target, or target=wf.token(-1) for the next"
                " token only",
            ) from error
    ids: Tensor = found if isinstance(found, Tensor) else found.sequences
    return ids


@contextmanager
def _seeded(module: nn.Module, seed: int | None) -> Iterator[None]:
    """Draw the same random numbers each time, and leave those of the user as they were."""
    device, _ = device_and_dtype(module)
    devices = [device] if device.type == "cuda" else []
    with keep_random_state(*devices):
        torch.manual_seed(SEED if seed is None else seed)
        yield
