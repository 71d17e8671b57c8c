"""Build a small random model of any model type of transformers, and inputs for it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tests.matrix.exceptions import CLASSES, CONFIGS, INPUTS, TOO_SLOW
from tests.matrix.facts import tensors_of
from tests.matrix.model_inputs import model_inputs
from tests.matrix.model_types import class_names, config_class, load
from tests.matrix.shrink import shrink

NOISE = 0.1


@dataclass(frozen=True)
class Built:
    """A small model of one type."""

    model_type: str
    model: nn.Module

    def inputs(self, lengths: Sequence[int]) -> dict[str, Any]:
        """Inputs for the forward, one sample per length."""
        return model_inputs(self.model, lengths, INPUTS.get(self.model_type))


def build(model_type: str) -> Built:
    """Return a small model of the type in float64, in eval mode, with noise on its weights."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        config = shrink(config_class(model_type), CONFIGS.get(model_type, {}))
        config.use_cache = False
        config._experts_implementation = "eager"  # torch's grouped product has no float64
        name = CLASSES.get(model_type) or class_names(model_type)[0]
        model = load(name)(config).eval()
        _add_noise(model)
        model = model.to(torch.float64)
    return Built(model_type, model)


@torch.no_grad()
def _add_noise(model: nn.Module) -> None:
    """Add noise to every parameter: new models have zero biases and unit gains."""
    for parameter in model.parameters():
        if parameter.is_floating_point():
            noise = torch.randn_like(parameter)
            tame = parameter.isfinite() & (parameter.abs() < 100)
            parameter.copy_((parameter + NOISE * noise).where(tame, NOISE * noise))


def reason_against(model_type: str) -> str:
    """Why no small model of the type runs; empty if one does."""
    if model_type in TOO_SLOW:
        return f"too slow: {TOO_SLOW[model_type]}"
    try:
        built = build(model_type)
        with torch.no_grad():
            output = built.model(**built.inputs((7, 7)))
    except Exception as error:
        text = " ".join(str(error).split())
        return f"{type(error).__name__}: {text}"[:160]
    if not all(tensor.isfinite().all() for tensor in tensors_of(output)):
        return "the outputs are not finite"
    return ""
