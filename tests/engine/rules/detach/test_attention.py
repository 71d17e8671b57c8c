"""Attention against the AH rule (Ali et al. 2022, eq. 9) and AttnLRP (Achtibat et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.detach.tables import detach_table

Random = Callable[..., Tensor]
DETACHED = detach_table(attention="detach", norm="detach")
ATTN_LRP = detach_table(
    attention="uniform", norm="detach", activation="identity", product="uniform"
)
SHAPE = (2, 2, 4, 3)  # (batch, head, token, width)


# -- attention as models write it --------------------------------------------------


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def eager(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = torch.matmul(q, k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores + mask
    return torch.matmul(F.dropout(F.softmax(scores, dim=-1), 0.1, training=False), v)


def folded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Heads folded into the batch, and `bmm`, as in DeBERTa."""
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)]
    scores = torch.bmm(flat[0], flat[1].transpose(-1, -2) / math.sqrt(q.shape[-1]))
    scores = scores.view(*q.shape[:-1], -1)
    if mask is not None:
        scores = scores + mask
    attention = torch.softmax(scores, -1)
    return torch.bmm(attention.view(-1, *attention.shape[-2:]), flat[2]).view(v.shape)


def einsum(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores += mask
    return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(dim=-1), v)


SPELLINGS = {"fused": fused, "eager": eager, "folded": folded, "einsum": einsum}


# -- slow twins ------------------------------------------------------------------------------------


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """(scores, attention), entry by entry."""
    scores = q.new_zeros(*q.shape[:-1], k.shape[-2])
    for b, h, i, j in _indices(scores):
        scores[b, h, i, j] = sum(q[b, h, i] * k[b, h, j]) / math.sqrt(q.shape[-1])
    masked = scores if mask is None else scores + mask
    attention = masked.exp() / masked.exp().sum(dim=-1, keepdim=True)
    return scores, attention


def _indices(tensor: Tensor) -> list[tuple[int, ...]]:
    return [tuple(index) for index in torch.ones_like(tensor).nonzero().tolist()]


def slow_mixing(attention: Tensor, v: Tensor, relevance: Tensor) -> Tensor:
    """Relevance of each summand of attention @ v, (batch, head, query, key, width)."""
    parts = attention.unsqueeze(-1) * v.unsqueeze(-3)
    shares = torch.zeros_like(parts)
    for b, h, i, j in _indices(attention):
        for d in range(v.shape[-1]):
            total = sum(parts[b, h, i, other, d] for other in range(v.shape[-2]))
            shares[b, h, i, j, d] = parts[b, h, i, j, d] / total * relevance[b, h, i, d]
    return shares


def slow_softmax(scores: Tensor, attention: Tensor, relevance: Tensor) -> Tensor:
    """R_i = x_i (R_i - s_i sum over j of R_j): AttnLRP, proposition 3.1."""
    return scores * (relevance - attention * relevance.sum(dim=-1, keepdim=True))


def slow_scores(q: Tensor, k: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Half to each factor of every summand of q @ k (proposition 3.3)."""
    to_q, to_k = torch.zeros_like(q), torch.zeros_like(k)
    for b, h, i, j in _indices(relevance):
        parts = q[b, h, i] * k[b, h, j]
        shares = parts / parts.sum() * relevance[b, h, i, j] / 2
        to_q[b, h, i] += shares
        to_k[b, h, j] += shares
    return to_q, to_k


# -- the tests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("masked", [False, True], ids=["open", "biased"])
def test_detached_attention_equals_the_slow_twin(
    through: Any, random: Random, spelling: str, masked: bool
) -> None:
    """A value gets relevance by its contribution; queries and keys get nothing."""
    q, k, v, relevance = (random(*SHAPE) for _ in range(4))
    mask = random(1, 2, 4, 4) if masked else None
    passed = through(
        lambda q, k, v: SPELLINGS[spelling](q, k, v, mask), (q, k, v), DETACHED, relevance
    )
    attention = attention_weights(q, k, mask)[1]
    torch.testing.assert_close(passed.relevance[2], slow_mixing(attention, v, relevance).sum(dim=2))
    assert not passed.relevance[0].any()
    assert not passed.relevance[1].any()


@pytest.mark.parametrize("spelling", ["fused", "eager"])
def test_a_position_bias_that_depends_on_tokens_gets_nothing(
    through: Any, random: Random, spelling: str
) -> None:
    """T5 and BEiT pass learned biases as masks; they belong to the attention, which is constant."""
    q, k, v, relevance = (random(*SHAPE) for _ in range(4))
    bias = random(2, 2, 4, 4)
    passed = through(SPELLINGS[spelling], (q, k, v, bias), DETACHED, relevance)
    assert not passed.relevance[3].any()


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("masked", [False, True], ids=["open", "biased"])
def test_attn_lrp_equals_the_slow_twin(
    through: Any, random: Random, spelling: str, masked: bool
) -> None:
    q, k, v, relevance = (random(*SHAPE) for _ in range(4))
    mask = random(1, 2, 4, 4) if masked else None
    passed = through(
        lambda q, k, v: SPELLINGS[spelling](q, k, v, mask), (q, k, v), ATTN_LRP, relevance
    )
    scores, attention = attention_weights(q, k, mask)
    shares = slow_mixing(attention, v, relevance) / 2
    torch.testing.assert_close(passed.relevance[2], shares.sum(dim=2))
    # The softmax gets scores + mask; the share of the scores is scores times slope.
    to_scores = slow_softmax(scores, attention, shares.sum(dim=-1))
    to_q, to_k = slow_scores(q, k, to_scores)
    torch.testing.assert_close(passed.relevance[0], to_q)
    torch.testing.assert_close(passed.relevance[1], to_k)
    handed_out = sum(r.flatten(1).sum(dim=1) for r in passed.relevance)
    torch.testing.assert_close(
        handed_out + sum(passed.sinks.values()), relevance.flatten(1).sum(dim=1)
    )


@pytest.mark.parametrize("rules", [DETACHED, ATTN_LRP], ids=["detached", "attn_lrp"])
@pytest.mark.parametrize(
    "options",
    [
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": torch.ones(4, 4, dtype=torch.bool).tril()},
        {
            "attn_mask": torch.zeros(4, 4, dtype=torch.float64).masked_fill(
                torch.ones(4, 4, dtype=torch.bool).triu(1), -torch.inf
            )
        },
        {"attn_mask": torch.tensor([[False] * 4] + [[True] * 4] * 3)},
    ],
    ids=["causal", "scale", "boolean", "infinite", "blind"],
)
def test_options_of_fused_attention_keep_conservation(
    through: Any, random: Random, rules: Any, options: dict[str, Any]
) -> None:
    q, k, v, relevance = (random(*SHAPE) for _ in range(4))
    if "attn_mask" in options and not options["attn_mask"].any(-1).all():
        relevance[:, :, 0] = 0  # a query without visible keys is 0 and has no relevance

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output = F.scaled_dot_product_attention(q, k, v, **options)
        # The test divides relevance by the output, and 0 / 0 would be NaN.
        return torch.where(output.detach() == 0, 1.0, output)

    passed = through(attend, (q, k, v), rules, relevance)
    handed_out = sum(r.flatten(1).sum(dim=1) for r in passed.relevance)
    torch.testing.assert_close(
        handed_out + sum(passed.sinks.values()), relevance.flatten(1).sum(dim=1)
    )


@pytest.mark.parametrize("rules", [DETACHED, ATTN_LRP], ids=["detached", "attn_lrp"])
def test_grouped_heads_equal_repeated_ones(through: Any, random: Random, rules: Any) -> None:
    q, relevance = random(2, 4, 4, 3), random(2, 4, 4, 3)
    k, v = random(2, 2, 4, 3), random(2, 2, 4, 3)

    def repeated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return fused(q, k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1))

    def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    expected = through(repeated, (q, k, v), rules, relevance)
    found = through(grouped, (q, k, v), rules, relevance)
    for a, b in zip(found.relevance, expected.relevance, strict=True):
        torch.testing.assert_close(a, b)


def test_a_softmax_that_mixes_nothing_is_not_attention(through: Any, random: Random) -> None:
    """Mixture weights or class probabilities keep their gradient; the loss is a leak."""
    x, relevance = random(2, 5), random(2, 5)
    passed = through(lambda x: torch.softmax(x, dim=-1), (x,), DETACHED, relevance)
    torch.testing.assert_close(passed.relevance[0], slow_softmax(x, x.softmax(dim=-1), relevance))
    torch.testing.assert_close(
        passed.relevance[0].sum(dim=1) + passed.leaks["softmax"], relevance.sum(dim=1)
    )
