"""Relevance rules of attention in every spelling, against slow twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.engine.rules.relevance.twins import (
    SCALE,
    Random,
    attention,
    close,
    linear,
    send_back,
)

# -- attention -----------------------------------------------------------------------------------


def eager(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) * SCALE
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    elif mask is not None:
        scores = scores + mask
    return F.dropout(F.softmax(scores, dim=-1), 0.0, training=False) @ v


def mask_first(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = (q * SCALE) @ k.transpose(-1, -2)
    if mask is not None and mask.dtype == torch.bool:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
    elif mask is not None:
        scores = mask + scores
    return torch.matmul(scores.softmax(-1), v)


def by_einsum(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * SCALE
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
    return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)


def folded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Samples and heads in one axis, as in older BART code."""
    b, h, t, _ = q.shape
    scores = torch.bmm(q.flatten(0, 1) * SCALE, k.flatten(0, 1).transpose(1, 2))
    if mask is not None:
        scores = scores.view(b, h, t, -1)
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
        scores = scores.flatten(0, 1)
    return torch.bmm(scores.softmax(-1), v.flatten(0, 1)).unflatten(0, (b, h))


ATTENTION: dict[str, Callable[..., Tensor]] = {
    "fused": F.scaled_dot_product_attention,
    "eager": eager,
    "mask_first": mask_first,
    "einsum": by_einsum,
    "folded": folded,
}


def additive(value: float) -> Tensor:
    mask = torch.zeros(2, 1, 1, 3, dtype=torch.float64)
    mask[1, ..., 2] = value
    return mask


MASKS: dict[str, Tensor | None] = {
    "none": None,
    "zeros": additive(0),
    "finfo_min": additive(torch.finfo(torch.float64).min),
    "float32_min": additive(torch.finfo(torch.float32).min),
    "infinite": additive(-torch.inf),
    "minus_10000": additive(-10000.0),
    "boolean": additive(1) == 0,
    "position_bias": torch.arange(9, dtype=torch.float64).reshape(1, 1, 3, 3).expand(2, 2, 3, 3)
    / 7,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("spelling", ATTENTION)
def test_attention(random: Random, spelling: str, mask: str) -> None:
    q, k, v, relevance = (random(2, 2, 3, 4) for _ in range(4))
    sent = send_back(lambda *qkv: ATTENTION[spelling](*qkv, MASKS[mask]), (q, k, v), relevance)
    given = MASKS[mask]
    if mask == "zeros":
        given = None  # an all-zero mask takes nothing
    for found, expected in zip(sent.relevance, attention(q, k, v, relevance, given), strict=True):
        close(found, expected)
    assert len(sent.maps) == 1
    if mask not in ("none", "zeros", "position_bias"):
        for found in (sent.relevance[1], sent.relevance[2]):
            assert (found[1, :, 2] == 0).all(), "a masked token got relevance"


def test_fused_attention_of_causal_models(random: Random) -> None:
    q, k, v, relevance = (random(2, 2, 3, 4) for _ in range(4))
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    sent = send_back(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True), (q, k, v), relevance
    )
    for found, expected in zip(sent.relevance, attention(q, k, v, relevance, causal), strict=True):
        close(found, expected)


def test_fused_attention_with_grouped_heads(random: Random) -> None:
    q, relevance = random(2, 4, 3, 4), random(2, 4, 3, 4)
    k, v = random(2, 2, 3, 4), random(2, 2, 3, 4)
    sent = send_back(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, enable_gqa=True), (q, k, v), relevance
    )
    repeated = [x.repeat_interleave(2, dim=1) for x in (k, v)]
    to_q, *others = attention(q, *repeated, relevance)
    close(sent.relevance[0], to_q)
    for found, expected in zip(sent.relevance[1:], others, strict=True):
        close(found, expected.unflatten(1, (2, 2)).sum(2))


def test_fused_attention_with_a_scale_of_its_own(random: Random) -> None:
    """A scale changes the weights, not how a score is shared."""
    q, k, v, relevance = (random(2, 2, 3, 4) for _ in range(4))
    sent = send_back(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, scale=0.1), (q, k, v), relevance
    )
    shrunk = attention(q * 0.1 / SCALE, k, v, relevance)
    for found, expected in zip(sent.relevance, shrunk, strict=True):
        close(found, expected)


def test_cross_attention(random: Random) -> None:
    q, relevance = random(2, 2, 3, 4), random(2, 2, 3, 4)
    k, v = random(2, 2, 5, 4), random(2, 2, 5, 4)
    sent = send_back(F.scaled_dot_product_attention, (q, k, v), relevance)
    for found, expected in zip(sent.relevance, attention(q, k, v, relevance), strict=True):
        close(found, expected)


@pytest.mark.parametrize("weighted", [False, True], ids=["fused", "weights_needed"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention_module(random: Random, batch_first: bool, weighted: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=batch_first).double().eval()
    nn.init.normal_(module.in_proj_bias)
    nn.init.normal_(module.out_proj.bias)
    x, relevance = random(2, 3, 8), random(2, 3, 8)
    turn = (lambda t: t) if batch_first else (lambda t: t.transpose(0, 1))
    sent = send_back(
        lambda x: module(x, x, x, need_weights=weighted)[0],
        (turn(x),),
        turn(relevance),
        batch_first=batch_first,
    )

    def heads(t: Tensor) -> Tensor:
        return t.unflatten(-1, (2, 4)).transpose(1, 2)

    qkv = F.linear(x, module.in_proj_weight, module.in_proj_bias).detach()
    q, k, v = (heads(part) for part in qkv.split(8, -1))
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    arriving = linear(mixed, module.out_proj.weight.detach(), relevance)
    parts = attention(q, k, v, heads(arriving))
    joined = torch.cat([part.transpose(1, 2).flatten(2) for part in parts], -1)
    close(turn(sent.relevance[0]), linear(x, module.in_proj_weight.detach(), joined))
    assert len(sent.maps) == 1


@pytest.mark.parametrize("batch_first", [True, False])
def test_encoder_layer_sample_by_sample(random: Random, batch_first: bool) -> None:
    """Skip connections normalise per sample, whichever axis holds the samples."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=batch_first).double().eval()
    x, relevance = random(2, 3, 8), random(2, 3, 8)
    turn = (lambda t: t) if batch_first else (lambda t: t.transpose(0, 1))
    together = turn(
        send_back(layer, (turn(x),), turn(relevance), batch_first=batch_first).relevance[0]
    )
    for i in range(2):
        one = slice(i, i + 1)
        alone = send_back(layer, (turn(x[one]),), turn(relevance[one]), batch_first=batch_first)
        close(together[one], turn(alone.relevance[0]))
