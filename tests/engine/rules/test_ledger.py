"""The ledger books per sample, for every layout of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.backward import gradients_at
from whyformer.engine.interception import Interception
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.rules.ledger import Ledger, Place, sum_by_account
from whyformer.engine.rules.operations import tensor_tags as tags
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


@pytest.mark.parametrize("per_token", [False, True], ids=["sums", "per token"])
def test_biases_of_small_outputs_may_be_booked_together(random: Random, per_token: bool) -> None:
    """After the backward pass, with the sinks that hooks book while it runs."""
    x, weights = random(2, 3, 4), [random(4, 4) for _ in range(3)]
    biases, gain, shift = [random(4) for _ in range(3)], random(4), random(4)

    def run(x: Tensor) -> Tensor:
        y = F.layer_norm(F.linear(x, weights[0], biases[0]), (4,), gain, shift)
        F.linear(y, weights[1], biases[1])  # nobody reads it
        z = F.linear(y, weights[2], biases[2])
        z.mul_(2.0)  # the gradient before the product counts
        return z + y

    sinks = []
    for together in (False, True):
        ledger = Ledger(2, per_token=per_token, together=together)
        ledger.place = Place("text", 0, 3)
        leaf = tags.add_tag(x.clone().requires_grad_(), tags.LEAF)
        with Interception(RULES, ledger, double=True):
            value = (run(leaf.clone()) * torch.arange(4.0)).sum((1, 2))
        gradients_at(value, {"states": [leaf]}, ledger=ledger)
        sinks.append({**ledger.sinks, **sum_by_account(ledger.token_sinks)})
        assert bool(ledger.edges) == together
    assert sinks[0].keys() == sinks[1].keys() == {"bias", "norm_bias"}
    for account, booked in sinks[0].items():
        torch.testing.assert_close(sinks[1][account], booked, rtol=1e-12, atol=1e-12)


def test_biases_that_wait_must_be_booked(random: Random) -> None:
    ledger = Ledger(2, together=True)
    leaf = tags.add_tag(random(2, 3, 4).requires_grad_(), tags.LEAF)
    with Interception(RULES, ledger, double=True):
        value = F.linear(leaf, random(4, 4), random(4)).sum()
    torch.autograd.grad(value, leaf)
    with pytest.raises(AssertionError, match="book_edges"):
        _ = ledger.sinks
