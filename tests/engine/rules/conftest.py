"""Relevance sent through a few operations under a table of rules, for the rules' slow twins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from whyformer.engine.interception import Interception
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import tensor_tags as tags


class Passed(NamedTuple):
    output: Tensor
    relevance: tuple[Tensor, ...]  # of each input
    sinks: dict[str, Tensor]  # (batch,) each
    leaks: dict[str, Tensor]  # (batch,) each, by operation without a rule


def pass_through(
    function: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    table: Mapping[Any, Any],
    relevance: Tensor,
) -> Passed:
    """Where the output's relevance goes: to each input, and to sinks.

    The inputs depend on the tokens; whatever else the function uses does not. The forward value
    is held against a plain run on the way.
    """
    leaves = tuple(tags.add_tag(x.clone().requires_grad_(), tags.LEAF) for x in inputs)
    ledger = Ledger(batch=len(inputs[0]), active=True)
    with Interception(table, ledger, double=True):
        output = function(*(leaf.clone() for leaf in leaves))
    torch.testing.assert_close(output, function(*inputs), rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad(
        output, leaves, relevance / output.detach(), allow_unused=True, materialize_grads=True
    )
    return Passed(
        output.detach(),
        tuple((x * g).detach() for x, g in zip(inputs, gradients, strict=True)),
        {name: sink.detach() for name, sink in ledger.sinks.items()},
        {name: leak.detach() for name, leak in ledger.leaks.items()},
    )


@pytest.fixture
def through() -> Callable[..., Passed]:
    return pass_through


@pytest.fixture(params=range(3), ids=lambda seed: f"seed{seed}")
def random(request: pytest.FixtureRequest) -> Callable[..., Tensor]:
    """Normal float64 numbers of a shape, other ones for each seed."""
    generator = torch.Generator().manual_seed(request.param)
    return lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)
