"""Quantised weights: those that whyformer can read as floats, and layers that it must refuse."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import Parameter

from whyformer.errors import ModelError
from whyformer.models.parts import modules_of

# Packages whose quantised layers run kernels of their own, which give no usable gradient.
_OPAQUE = ("bitsandbytes", "gptqmodel", "auto_gptq", "awq", "eetq")


def is_quantised(tensor: Tensor) -> bool:
    """Return whether this is a weight of torchao, which holds integers and looks like floats."""
    kind = type(tensor)
    return kind is not Tensor and kind is not Parameter and kind.__module__.startswith("torchao.")


def dequantise(tensor: Tensor) -> Tensor:
    """Return the floats that a quantised weight stands for, as a plain tensor.

    Raise ModelError if the weight also rounds the activations that it meets.
    """
    if getattr(tensor, "act_quant_kwargs", None) is not None:
        raise ModelError(
            f"a weight of class {type(tensor).__name__} rounds activations to integers while the"
            " model runs: no gradient passes through that",
            argument="model",
            remedy="Quantise the weights only, for instance with Int8WeightOnlyConfig",
        )
    return tensor.detach().dequantize()


def refuse_opaque_layers(module: nn.Module) -> None:
    """Raise ModelError if the model has quantised layers that no rule can see into."""
    for kind in {type(part) for part in modules_of(module)}:
        package = kind.__module__.partition(".")[0]
        if package in _OPAQUE:
            raise ModelError(
                f"the model has layers of class {kind.__name__} ({package}), whose kernels"
                " hide their operations",
                argument="model",
                remedy="Load the model without quantisation or with torchao's weight-only int8, or"
                " use a method that only runs the model, such as 'occlusion'",
            )
