"""Attention that is no product of matrices: sampled places, weights one by one, gated units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.engine.rules.detach.test_attention import ATTN_LRP, DETACHED, SHAPE, eager, fused
from whyformer.engine.rules.detach.tables import detach_table

Random = Callable[..., Tensor]
PRODUCTS = ("gradient", "gate", "uniform")


def test_a_fused_mask_that_depends_on_the_tokens_gets_what_eager_scores_get(
    through: Any, random: Random
) -> None:
    """AttnLRP: scores of positions, as Conformers pass them, are a summand of query x key."""
    q, k, v, relevance = (random(*SHAPE) for _ in range(4))
    places = random(2, 2, 4, 4)
    ours, theirs = (through(f, (q, k, v, places), ATTN_LRP, relevance) for f in (fused, eager))
    for found, expected in zip(ours.relevance, theirs.relevance, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert ours.relevance[3].any()


def test_a_masked_score_of_minus_infinity_is_no_number_that_counts(
    through: Any, random: Random
) -> None:
    q, k, v, relevance = (random(*SHAPE) for _ in range(4))
    places = random(2, 2, 4, 4)
    hidden = torch.zeros(4, 4).bool()
    hidden[:, 3] = True

    def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return fused(q, k, v, bias.masked_fill(hidden, -torch.inf))

    passed = through(attend, (q, k, v, places), ATTN_LRP, relevance)
    assert all(part.isfinite().all() for part in passed.relevance)
    assert not passed.relevance[3][..., 3].any()
    total = sum(part.sum((1, 2, 3)) for part in passed.relevance) + sum(passed.sinks.values())
    torch.testing.assert_close(total, relevance.sum((1, 2, 3)))


@pytest.mark.parametrize("product", PRODUCTS)
def test_weights_that_multiply_values_one_by_one_are_constants(
    through: Any, random: Random, product: str
) -> None:
    """Deformable attention: sum over points of softmax(x) * value."""
    scores, values, relevance = random(2, 4, 3), random(2, 4, 3), random(2, 4)
    table = detach_table(attention="detach", norm="detach", product=product)
    passed = through(lambda s, v: (v * s.softmax(-1)).sum(-1), (scores, values), table, relevance)
    parts = values * scores.softmax(-1)
    expected = parts / parts.sum(-1, keepdim=True) * relevance.unsqueeze(-1)
    torch.testing.assert_close(passed.relevance[1], expected)
    assert not passed.relevance[0].any()
    assert not passed.leaks


@pytest.mark.parametrize("table", [DETACHED, ATTN_LRP], ids=["detached", "attn_lrp"])
def test_where_a_map_is_read_is_a_constant(
    through: Any, random: Random, table: dict[Any, Any]
) -> None:
    """Bilinear reading is linear in the map: each corner gets its share, the places nothing."""
    maps, places = random(2, 3, 4, 5), random(2, 6, 1, 2).tanh() * 0.5
    relevance = random(2, 3, 6, 1)
    passed = through(
        lambda m, p: F.grid_sample(m, p, align_corners=False), (maps, places), table, relevance
    )
    assert not passed.relevance[1].any()
    torch.testing.assert_close(passed.relevance[0].sum((2, 3)), relevance.sum((2, 3)))
    assert not passed.leaks


def test_a_gated_linear_unit_is_a_product_with_a_gate(through: Any, random: Random) -> None:
    """Its gate is constant: all relevance goes to the half that is not squashed."""
    states, relevance = random(2, 3, 8), random(2, 3, 4)
    table = detach_table(attention="detach", norm="detach", activation="identity", product="gate")
    passed = through(lambda x: F.glu(x, dim=-1), (states,), table, relevance)
    torch.testing.assert_close(passed.relevance[0][..., :4], relevance)
    assert not passed.relevance[0][..., 4:].any()
    assert not passed.leaks


def test_where_with_a_number_of_double_size(through: Any, random: Random) -> None:
    """The smallest double fits into no single: a mask of positions is filled with it."""
    scores, relevance = random(2, 4), random(2, 4)
    keep = torch.tensor([True, True, True, False])
    smallest = torch.finfo(torch.float64).min
    passed = through(lambda x: torch.where(keep, x, smallest), (scores,), DETACHED, relevance)
    torch.testing.assert_close(passed.relevance[0], relevance * keep)
