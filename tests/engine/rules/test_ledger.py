"""The ledger books per sample, for every layout of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.rules.ledger import Ledger
from whyformer.errors import ModelError

Random = Callable[..., Tensor]
RULES = detach_table(attention="detach", norm="detach")


def test_a_sample_pays_for_its_own_relevance_only(through: Any, random: Random) -> None:
    x, weight, bias, relevance = random(3, 2, 4), random(5, 4), random(5), random(3, 2, 5)
    together = through(lambda x: F.linear(x, weight, bias), (x,), RULES, relevance)
    for i in range(3):
        one = slice(i, i + 1)
        alone = through(lambda x: F.linear(x, weight, bias), (x[one],), RULES, relevance[one])
        torch.testing.assert_close(together.sinks["bias"][one], alone.sinks["bias"])


def test_samples_folded_into_another_axis_are_told_apart(through: Any, random: Random) -> None:
    """GPT-2 flattens samples and tokens into one axis before its linear layers."""
    x, weight, bias, relevance = random(3, 2, 4), random(4, 5), random(5), random(3, 2, 5)

    def flat(x: Tensor) -> Tensor:
        return torch.addmm(bias, x.view(-1, 4), weight).view(3, 2, 5)

    folded = through(flat, (x,), RULES, relevance)
    plain = through(lambda x: F.linear(x, weight.T, bias), (x,), RULES, relevance)
    torch.testing.assert_close(folded.sinks["bias"], plain.sinks["bias"])


SHAPES = {
    "sample": ((3,), True),
    "sample first": ((3, 4), True),
    "sample and token folded": ((6, 4), True),
    "token first": ((2, 3, 4), False),
    "token and sample folded": ((6, 4), False),
}


@pytest.mark.parametrize("name", SHAPES)
def test_per_sample_sums_everything_else(name: str) -> None:
    shape, batch_first = SHAPES[name]
    owner = torch.arange(3.0)  # every entry is its sample, so each sum is a multiple of it
    if len(shape) == 1:
        relevance = owner
    elif name == "sample and token folded":
        relevance = owner.repeat_interleave(2)[:, None].expand(shape)
    elif name == "token and sample folded":
        relevance = owner.repeat(2)[:, None].expand(shape)
    elif batch_first:
        relevance = owner[:, None].expand(shape)
    else:
        relevance = owner[None, :, None].expand(shape)
    found = Ledger(batch=3).per_sample(relevance, batch_first)
    torch.testing.assert_close(found, owner * (relevance.numel() // 3))


def test_samples_that_cannot_be_told_apart_are_an_error() -> None:
    with pytest.raises(ModelError, match="cannot tell the 3 samples apart"):
        Ledger(batch=3).per_sample(torch.ones(4, 5))


def test_a_passive_ledger_books_nothing() -> None:
    ledger = Ledger(batch=1, active=False)
    output = torch.ones(1, 2, requires_grad=True) * 2
    ledger.book_constant("bias", output, 1.0)
    output.sum().backward()
    assert not ledger.sinks
