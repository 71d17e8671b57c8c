"""Dynamic int8 layers of torch.ao have no gradient: relevance passes their weights in floats."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import whyformer as wf
from tests.engine.test_hidden_operations import CONSERVING, IDS, Net


def quantised() -> tuple[nn.Module, nn.Module]:
    """A model in float32, and its copy with int8 layers."""
    net = Net().float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(
            copy.deepcopy(net), {nn.Linear}, dtype=torch.qint8
        )
    return net, small


@pytest.mark.parametrize(
    ("method", "options"),
    [*CONSERVING, ("gradient_x_input", {}), ("gae", {}), ("transformer_attribution", {})],
)
def test_int8_is_close_to_float(method: str, options: dict[str, Any]) -> None:
    net, small = quantised()
    found, expected = (
        wf.explain({"input_ids": IDS}, model, method=method, target=1, **options)
        for model in (small, net)
    )
    with torch.no_grad():
        torch.testing.assert_close(found.output, small(IDS)[:, 1])
    both = torch.stack([found.scores.flatten(), expected.scores.flatten()])
    assert torch.corrcoef(both)[0, 1] > 0.98
    if found.conservation is not None and method != "gradient_x_input":
        torch.testing.assert_close(found.conservation, torch.ones(3), rtol=0, atol=1e-4)
