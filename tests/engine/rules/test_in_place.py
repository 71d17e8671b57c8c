"""Calls that overwrite a tensor: same value as the plain call, and no relevance lost unnamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.engine.rules.rule_sets import attn_lrp_rules, balanced_rules

Random = Callable[..., Tensor]
TABLES = {"attn_lrp": attn_lrp_rules().table, "libragrad": balanced_rules().table}


def written(x: Tensor, y: Tensor) -> Tensor:
    z = x * 1.0
    z[:, 0] = y[:, 1]
    return z + x


def constant_written(x: Tensor, y: Tensor) -> Tensor:
    z = x + y
    z[:, 1] = 3.0
    return z


def written_into_ones(x: Tensor, y: Tensor) -> Tensor:
    z = torch.ones(2, 3, 4, dtype=x.dtype)
    z[:, 0] = x[:, 0]
    z[:, 1].copy_(y[:, 2])
    return z


def view_then_base(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2.0
    first = z[:, 0]
    first.sin_()
    return z + y


def base_then_view(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2.0
    last = z.transpose(1, 2)
    z.mul_(y)
    return last.transpose(1, 2) * 1.5


def overwritten_by_a_constant(x: Tensor, y: Tensor) -> Tensor:
    z = x * 1.0
    z.copy_(torch.full_like(z, 2.0))
    return z + y


def passed_as_out(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty(2, 3, 4, dtype=x.dtype)
    if x.requires_grad or torch._C._len_torch_function_stack():
        torch.mul(x, y, out=out)
        torch.add(out, y, out=out)
        return out
    return x * y + y


def gate_kept_by_name(x: Tensor, y: Tensor) -> Tensor:
    gate = F.silu(x)
    gate.mul_(y)
    return gate


def masked(x: Tensor, y: Tensor) -> Tensor:
    return (x + y).masked_fill_(x.detach() > 0, 0.7)


def experts(x: Tensor, y: Tensor) -> Tensor:
    flat = torch.zeros_like(x).reshape(6, 4)
    flat.index_add_(0, torch.tensor([0, 2, 1]), x.reshape(6, 4)[:3])
    flat.index_add_(0, torch.tensor([4, 5, 4]), y.reshape(6, 4)[3:])
    return flat.reshape(2, 3, 4) + x


CALLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu_module": lambda x, y: nn.ReLU(inplace=True)(x * 1.0) + y,
    "relu_by_name": lambda x, y: F.relu(x * 1.0, inplace=True) + y,
    "relu_by_position": lambda x, y: F.relu(x * 1.0, True) + y,
    "relu_": lambda x, y: (x * 1.0).relu_() + y,
    "silu_module": lambda x, y: nn.SiLU(inplace=True)(x * 1.0) * y,
    "hardtanh_by_position": lambda x, y: F.hardtanh(x * 1.0, -0.5, 0.5, True) + y,
    "leaky_relu_": lambda x, y: F.leaky_relu_(x * 1.0, 0.2) + y,
    "mul_": lambda x, y: (x * 1.0).mul_(y),
    "div_": lambda x, y: (x * 1.0).div_(y),
    "add_alpha": lambda x, y: (x * 1.0).add_(y, alpha=0.5),
    "sub_constant": lambda x, y: (x * 1.0).sub_(2.0) + y,
    "zero_": lambda x, y: (x * 1.0).zero_() + y,
    "fill_": lambda x, y: (x * 1.0).fill_(2.0) + y,
    "clamp_": lambda x, y: (x * 1.0).clamp_(min=-0.5) + y,
    "unsqueeze_": lambda x, y: (x * 1.0).unsqueeze_(0)[0] + y,
    "addcmul_": lambda x, y: (x * 1.0).addcmul_(x, y, value=0.3),
    "lerp_": lambda x, y: (x * 1.0).lerp_(y, 0.3),
    "dropout": lambda x, y: F.dropout(x * 1.0, 0.5, False, True) + y,
    "written": written,
    "constant_written": constant_written,
    "written_into_ones": written_into_ones,
    "base_then_view": base_then_view,
    "overwritten_by_a_constant": overwritten_by_a_constant,
    "passed_as_out": passed_as_out,
    "gate_kept_by_name": gate_kept_by_name,
    "masked": masked,
    "experts": experts,
}


def total(passed: Any) -> Tensor:
    """Relevance of inputs, sinks and leaks together, (batch,)."""
    parts = [r.flatten(1).sum(1) for r in passed.relevance]
    return sum([*parts, *passed.sinks.values(), *passed.leaks.values()], torch.zeros(2))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", CALLS)
def test_relevance_is_conserved(through: Any, random: Random, name: str, table: str) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    expected = CALLS[name](x, y)
    relevance = relevance.masked_fill(expected == 0, 0.0)
    passed = through(lambda x, y: CALLS[name](x, y) + 1e-300, (x, y), TABLES[table], relevance)
    torch.testing.assert_close(total(passed), relevance.flatten(1).sum(1), rtol=1e-8, atol=1e-8)
    assert not passed.leaks


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["sin_", "exp_", "cos_", "log1p_"])
def test_without_a_rule_the_loss_has_a_name(
    through: Any, random: Random, name: str, table: str
) -> None:
    """As much as the plain call loses, under the name of the plain call."""
    x, y, relevance = random(2, 3, 4).abs(), random(2, 3, 4), random(2, 3, 4)
    in_place = through(lambda x, y: getattr(x * 1.0, name)() + y, (x, y), TABLES[table], relevance)
    plain = through(
        lambda x, y: getattr(x * 1.0, name[:-1])() + y, (x, y), TABLES[table], relevance
    )
    assert list(in_place.leaks) == [name[:-1]]
    torch.testing.assert_close(in_place.leaks[name[:-1]], plain.leaks[name[:-1]])
    torch.testing.assert_close(total(in_place), relevance.flatten(1).sum(1))


def test_a_value_that_is_overwritten_later_is_measured_as_it_was(
    through: Any, random: Random
) -> None:
    def later(x: Tensor, y: Tensor) -> Tensor:
        z = torch.sin(x)
        z.mul_(y)
        return z

    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    passed = through(later, (x, y), TABLES["attn_lrp"], relevance)
    torch.testing.assert_close(total(passed), relevance.flatten(1).sum(1))


def test_a_view_sees_what_was_written_into_its_base(through: Any, random: Random) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    passed = through(view_then_base, (x, y), TABLES["attn_lrp"], relevance)
    assert list(passed.leaks) == ["sin"]
    torch.testing.assert_close(total(passed), relevance.flatten(1).sum(1))
