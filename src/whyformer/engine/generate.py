"""Generate text with the model's own settings, without sampling."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import TargetError
from whyformer.inputs.sequence import narrow_to_module
from whyformer.models.quiet import quiet_transformers


def generate_ids(module: nn.Module, arguments: Mapping[str, Any]) -> Tensor:
    """Return the ids that the model generates, (batch, tokens)."""
    generate: Any = getattr(module, "generate", None)
    if generate is None:
        raise TargetError(
            f"{type(module).__name__} cannot generate text",
            argument="head",
            remedy="Pass the ids of the generated tokens as target, or the decoder's inputs",
        )
    own = narrow_to_module(arguments, module)
    own.pop("use_cache", None)
    with torch.no_grad(), quiet_transformers(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on the user's settings
        ids: Tensor = generate(**own, do_sample=False)
    return ids
