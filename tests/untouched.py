"""The state of a model and of torch, to show that an explanation changes neither."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from whyformer.models.families.tiny import tiny_inputs, tiny_models


def used_model(name: str) -> nn.Module:
    """A tiny model as in use: some weights frozen, some with gradients, partly in training mode."""
    model = tiny_models()[name][1]()
    if name == "detr":
        model(**tiny_inputs(model))  # transformers puts hooks of its own there when it first runs
    for i, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(i % 3 != 0)
        if i % 2:
            parameter.grad = torch.full_like(parameter, i)
    for i, module in enumerate(model.modules()):
        module.training = i % 4 == 0
    return model


def state_of_model(model: nn.Module) -> dict[str, Any]:
    """Everything about a model that an explanation could disturb."""
    found: dict[str, Any] = {}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        found[name] = (
            id(tensor),
            tensor.detach().clone(),
            tensor.requires_grad,
            tensor._version,
            None if tensor.grad is None else tensor.grad.clone(),
            tensor._backward_hooks,
        )
    for name, module in model.named_modules():
        parts = {key: value for key, value in vars(module).items() if "hooks" in key}
        found[f"module {name}"] = (
            type(module),
            module.training,
            sorted(vars(module)),
            {key: list(v) if isinstance(v, Mapping) else v for key, v in parts.items()},
        )
    config: Any = model.config
    found["config"] = config.to_dict() | {"attention": config._attn_implementation}
    return found


def state_of_torch() -> dict[str, Any]:
    """Everything global about torch that an explanation could disturb."""
    hooks = vars(nn.modules.module)
    return {
        "random": torch.get_rng_state(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "functions": list(_get_current_function_mode_stack()),
        "dispatch": list(_get_current_dispatch_mode_stack()),
        "hooks": {k: list(v) for k, v in hooks.items() if k.startswith("_global") and v},
        "torch": {key: id(value) for owner in (torch, F) for key, value in vars(owner).items()},
        "tensor": {key: id(value) for key, value in vars(Tensor).items()},
        "sdp": (
            torch.backends.cuda.flash_sdp_enabled(),
            torch.backends.cuda.math_sdp_enabled(),
            torch.backends.mha.get_fastpath_enabled(),
        ),
        "thread_count": threading.active_count(),
    }


def assert_equal(after: Any, before: Any, where: str = "") -> None:
    if isinstance(before, Tensor):
        assert torch.equal(after, before), where
    elif isinstance(before, dict):
        assert after.keys() == before.keys(), where
        for key in before:
            assert_equal(after[key], before[key], f"{where} {key}")
    elif isinstance(before, (tuple, list)):
        assert len(after) == len(before), where
        for i, (a, b) in enumerate(zip(after, before, strict=True)):
            assert_equal(a, b, f"{where} [{i}]")
    else:
        assert after == before, where


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """A scope that fails if the state of the model or of torch differs at its end."""
    model_before, torch_before = state_of_model(model), state_of_torch()
    yield
    assert_equal(state_of_torch(), torch_before, "torch")
    assert_equal(state_of_model(model), model_before, "model")
