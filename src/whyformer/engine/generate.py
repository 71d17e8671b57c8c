"""A model writes: what it generates by its own settings, but without chance."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import TargetError
from whyformer.models.quiet import quiet_transformers


def generate_ids(module: nn.Module, arguments: Mapping[str, Any]) -> Tensor:
    """The ids that the model generates from what its forward takes, (batch, tokens)."""
    generate: Any = getattr(module, "generate", None)
    if generate is None:
        raise TargetError(
            f"{type(module).__name__} cannot generate: pass the ids of the generated tokens as"
            " target, or what the decoder reads in the inputs"
        )
    given = {name: value for name, value in arguments.items() if name != "use_cache"}
    with torch.no_grad(), quiet_transformers(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice about settings that are the user's
        ids: Tensor = generate(**given, do_sample=False)
    return ids
