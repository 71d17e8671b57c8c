"""Products slab by slab against the product."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from whyformer.engine.rules import blocked_matmul


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("rows", [0, 1, 7, blocked_matmul.FEW])
@pytest.mark.parametrize(
    "height", [1, blocked_matmul.SLAB, blocked_matmul.SLAB + 1, 3 * blocked_matmul.SLAB - 1]
)
def test_multiply_is_the_product(dtype: torch.dtype, rows: int, height: int) -> None:
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(rows, height, generator=generator, dtype=dtype)
    w = torch.randn(height, 1024, generator=generator, dtype=dtype)
    for right in (w, w[:, :1000], w[:, ::2], w.t().contiguous().t()):
        exact = left.double() @ right.double()
        found = blocked_matmul.multiply(left, right)
        assert found.dtype == dtype
        atol = 100 * torch.finfo(dtype).eps * height**0.5
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=atol)


def test_only_rows_that_are_pages_apart_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[int] = []
    added = Tensor.addmm_

    def counted(total: Tensor, rows: Tensor, slab: Tensor) -> Tensor:
        cuts.append(len(slab))
        return added(total, rows, slab)

    monkeypatch.setattr(Tensor, "addmm_", counted)
    w = torch.ones(3 * blocked_matmul.SLAB, 1024)
    blocked_matmul.multiply(torch.ones(2, len(w)), w[:, 1:].contiguous())
    blocked_matmul.multiply(torch.ones(blocked_matmul.FEW, len(w)), w)
    blocked_matmul.multiply(*(t.repeat(1, 2).bfloat16() for t in (torch.ones(2, len(w) // 2), w)))
    assert cuts == []
    blocked_matmul.multiply(torch.ones(2, len(w)), w)
    assert cuts == [blocked_matmul.SLAB] * 2
