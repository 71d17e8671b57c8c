"""The AH rule's backward of fused attention: the values' gradient, by a map that was kept or by
one that is computed again, a block of queries at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.detach import attention
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import fused_attention as fused_rules

HEADS, QUERIES, KEYS, WIDTH = 4, 7, 7, 3
MASKS: dict[str, Callable[[], dict]] = {
    "none": dict,
    "causal": lambda: {"is_causal": True},
    "padding": lambda: {"attn_mask": (torch.arange(KEYS) < 5).expand(2, 1, 1, KEYS)},
    "boolean": lambda: {"attn_mask": torch.rand(2, 1, QUERIES, KEYS) > 0.4},
    "additive": lambda: {"attn_mask": torch.randn(1, HEADS, QUERIES, KEYS).double()},
    "scale": lambda: {"scale": 0.3},
}


@pytest.mark.parametrize("block", [2, 3, 512, None])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mask", list(MASKS))
def test_values_get_what_autograd_gives_them(
    monkeypatch: pytest.MonkeyPatch, mask: str, groups: int, block: int | None
) -> None:
    if block is not None:
        monkeypatch.setattr(fused_rules, "SMALL", 0)
        monkeypatch.setattr(fused_rules, "ENTRIES", block * 2 * HEADS * KEYS)
        monkeypatch.setattr(fused_rules, "FEWEST", 1)
    query = torch.randn(2, HEADS, QUERIES, WIDTH).double()
    key, value = (torch.randn(2, HEADS // groups, KEYS, WIDTH).double() for _ in range(2))
    options = {**MASKS[mask](), "enable_gqa": groups > 1}
    if mask == "boolean":
        options["attn_mask"][..., 0] = True  # no query may look nowhere: torch gives NaN there

    def gradient(run: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        leaf = value.clone().requires_grad_()
        output = run(leaf)
        return output.detach(), torch.autograd.grad(output.cos().sum(), leaf)[0]

    fused = F.scaled_dot_product_attention
    expected = gradient(lambda v: fused(query, key, v, **options))
    ledger = Ledger(2)
    found = gradient(
        lambda v: attention.detach_in_fused(ledger, fused, (query, key, v), dict(options))
    )
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_queries_and_keys_get_nothing() -> None:
    states = torch.randn(2, HEADS, QUERIES, WIDTH).double().requires_grad_()
    value = torch.randn(2, HEADS, KEYS, WIDTH).double().requires_grad_()
    output = attention.detach_in_fused(
        Ledger(2), F.scaled_dot_product_attention, (states, states * 2, value), {}
    )
    (none,) = torch.autograd.grad(output.sum(), states, allow_unused=True)
    assert none is None
