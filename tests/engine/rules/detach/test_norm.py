"""Norms against the LN rule (Ali et al. 2022, eq. 12), neuron by neuron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.detach.tables import detach_table

Random = Callable[..., Tensor]
RULES = detach_table(norm="detach")


def slow_centring(x: Tensor, relevance: Tensor) -> Tensor:
    """R_i = sum over j of x_i (1[i=j] - 1/n) / (sum over i' of the same) R_j, rows of (n,)."""
    out = torch.zeros_like(x)
    n = x.shape[-1]
    for row in range(len(x)):
        for j in range(n):
            shares = [x[row, i] * ((i == j) - 1 / n) for i in range(n)]
            for i in range(n):
                out[row, i] += shares[i] / sum(shares) * relevance[row, j]
    return out


def test_layer_norm_equals_the_slow_twin(through: Any, random: Random) -> None:
    x, relevance = random(2, 5), random(2, 5)
    passed = through(lambda x: F.layer_norm(x, (5,)), (x,), RULES, relevance)
    torch.testing.assert_close(passed.relevance[0], slow_centring(x, relevance))
    assert not passed.sinks


def test_gain_and_bias(through: Any, random: Random) -> None:
    """The gain cancels in the shares; the bias keeps its share."""
    x, weight, bias, relevance = random(2, 5), random(5), random(5), random(2, 5)
    passed = through(lambda x: F.layer_norm(x, (5,), weight, bias), (x,), RULES, relevance)
    kept = bias / passed.output * relevance
    torch.testing.assert_close(passed.relevance[0], slow_centring(x, relevance - kept))
    torch.testing.assert_close(passed.sinks["norm_bias"], kept.sum(dim=1))


def test_a_detached_mean_is_a_sink(through: Any, random: Random) -> None:
    x, weight, bias, relevance = random(2, 5), random(5), random(5), random(2, 5)
    passed = through(
        lambda x: F.layer_norm(x, (5,), weight, bias),
        (x,),
        detach_table(norm="detach", detach_mean=True),
        relevance,
    )
    kept = bias / passed.output * relevance
    centred = x - x.mean(dim=1, keepdim=True)
    torch.testing.assert_close(passed.relevance[0], x / centred * (relevance - kept))
    torch.testing.assert_close(
        sum(passed.sinks.values()), (relevance - passed.relevance[0]).sum(dim=1)
    )


def hand_written_rms(x: Tensor, weight: Tensor) -> Tensor:
    """RMS norm as Llama writes it, with its cast."""
    narrow = x.to(torch.float32)
    scale = torch.rsqrt(narrow.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * (narrow * scale).to(x.dtype)


def hand_written_layer_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Layer norm by the unbiased deviation, as in older code."""
    mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return weight * (x - mean) / (deviation + 1e-6)


def test_rms_norms_pass_relevance_unchanged(through: Any, random: Random) -> None:
    """With a constant root mean square the norm only scales (AttnLRP, eq. 18)."""
    x, weight, relevance = random(2, 3, 5), random(5), random(2, 3, 5)
    passed = through(lambda x: F.rms_norm(x, (5,), weight, 1e-6), (x,), RULES, relevance)
    torch.testing.assert_close(passed.relevance[0], relevance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_hand_written_rms_norm_too(through: Any, random: Random, dtype: torch.dtype) -> None:
    x, weight, relevance = random(2, 3, 5), random(5), random(2, 3, 5)
    x, weight, relevance = x.to(dtype), weight.to(dtype), relevance.to(dtype)
    leaf_relevance = _without_forward_check(x, weight, relevance)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(leaf_relevance, relevance, rtol=tolerance, atol=tolerance)


def _without_forward_check(x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """Compare loosely: in float64 the rules leave out the cast, so the plain run is less exact."""
    from whyformer.engine.interception import Interception
    from whyformer.engine.rules.ledger import Ledger
    from whyformer.engine.rules.operations import tensor_tags as tags

    leaf = tags.add_tag(x.clone().requires_grad_(), tags.LEAF)
    with Interception(RULES, Ledger(batch=len(x)), double=x.dtype == torch.float64):
        output = hand_written_rms(leaf, weight)
    torch.testing.assert_close(output, hand_written_rms(x, weight), rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(output, leaf, relevance / output.detach())
    return x * gradient


def test_hand_written_layer_norm_too(through: Any, random: Random) -> None:
    x, weight, relevance = random(2, 5), random(5), random(2, 5)
    passed = through(lambda x: hand_written_layer_norm(x, weight), (x,), RULES, relevance)
    torch.testing.assert_close(passed.relevance[0], slow_centring(x, relevance))


def test_batch_norm_is_affine_in_eval(through: Any, random: Random) -> None:
    x, relevance = random(2, 3), random(2, 3)
    mean, variance, weight, bias = random(3), random(3).abs() + 0.1, random(3), random(3)
    passed = through(
        lambda x: F.batch_norm(x, mean, variance, weight, bias, eps=0.0), (x,), RULES, relevance
    )
    slope = weight / variance.sqrt()
    torch.testing.assert_close(passed.relevance[0], x * slope / passed.output * relevance)
    torch.testing.assert_close(
        sum(passed.sinks.values()), (relevance - passed.relevance[0]).sum(dim=1)
    )


def test_group_norm_with_one_group_is_a_layer_norm(through: Any, random: Random) -> None:
    x, relevance = random(2, 5), random(2, 5)
    passed = through(lambda x: F.group_norm(x, 1), (x,), RULES, relevance)
    torch.testing.assert_close(passed.relevance[0], slow_centring(x, relevance))
