"""Faults at every k-th operation leave model and torch as they were, for every method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import whyformer as wf
from tests.several import target_of
from tests.untouched import untouched, used_model
from whyformer.models.families.tiny import tiny_inputs

MODELS = ("bert", "gpt2", "lxmert", "t5", "vit", "llama")
FAULTS = 4  # per method, model and mode, spread over all operations


class PlantedError(RuntimeError):
    """A fault in an operation."""


class PlantedInterrupt(BaseException):
    """An interrupt in an operation."""


class FaultAt(TorchFunctionMode):
    """Raises at one operation, counted from 1; 0 for none."""

    def __init__(self, operation: int = 0, error: type[BaseException] = PlantedError) -> None:
        super().__init__()
        self.operation = operation
        self.error = error
        self.seen = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.seen += 1
        if self.seen == self.operation:
            raise self.error
        return func(*args, **(kwargs or {}))


def explain(model: nn.Module, name: str, method: str) -> torch.Tensor:
    options = {"steps": 2} if "steps" in wf.methods()[method].options else {}
    return wf.explain(
        tiny_inputs(model), model, method=method, target=target_of(name), **options
    ).scores


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("method", [*wf.methods()])
@pytest.mark.parametrize("name", MODELS)
def test_faults_in_operations(name: str, method: str, training: bool) -> None:
    model = used_model(name).train(training)
    expected = explain(model, name, method)
    with FaultAt() as counter:
        explain(model, name, method)
    step = max(1, counter.seen // FAULTS)
    for number, operation in enumerate(range(1 + step // 2, counter.seen, step)):
        error = (PlantedError, PlantedInterrupt)[number % 2]
        with untouched(model):
            try:
                with FaultAt(operation, error):
                    explain(model, name, method)
            except (PlantedError, PlantedInterrupt, wf.errors.WhyformerError):
                pass
    assert torch.equal(explain(model, name, method), expected)
