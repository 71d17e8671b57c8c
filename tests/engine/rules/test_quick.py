"""Linear layers whose gradient is taken in slabs: the same numbers, and only where it pays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer as wf
from whyformer.engine.rules import blocked_matmul, quick
from whyformer.engine.rules.ledger import Ledger
from whyformer.models.families.tiny import tiny_inputs, tiny_models

PAGE = 1024  # float32 numbers, 4096 bytes


def through(x: Tensor, w: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    output: Tensor = quick.linear(Ledger(1), F.linear, (x, w), {"bias": bias, **options})
    return output


def is_own(output: Tensor) -> bool:
    return "_Linear" in type(output.grad_fn).__name__


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 60), (130,), ()])
@pytest.mark.parametrize("outputs", [3, 128, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_are_torchs(
    dtype: torch.dtype, outputs: int, shape: tuple[int, ...], bias: bool
) -> None:
    torch.manual_seed(0)
    w = torch.randn(outputs, PAGE, dtype=dtype)
    b = torch.randn(outputs, dtype=dtype) if bias else None
    x = torch.randn(*shape, PAGE, dtype=dtype, requires_grad=True)
    found, expected = through(x, w, b), F.linear(x, w, b)
    assert is_own(found)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    start = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad(y, x, start)[0] for y in (found, expected))
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * 10)


def test_by_position_as_by_name() -> None:
    w, b = torch.randn(4, PAGE), torch.randn(4)
    x = torch.randn(3, PAGE, requires_grad=True)
    found = quick.linear(Ledger(1), F.linear, (x, w, b), {})
    assert is_own(found)
    assert torch.equal(found, F.linear(x, w, b))


@pytest.mark.parametrize(
    ("x", "w"),
    [
        (torch.randn(3, PAGE), torch.randn(4, PAGE)),  # nothing to go back to
        (torch.randn(3, 96, requires_grad=True), torch.randn(4, 96)),  # rows are not pages
        (torch.randn(500, PAGE, requires_grad=True), torch.randn(4, PAGE)),  # many rows
        (torch.randn(3, PAGE, requires_grad=True), torch.randn(4, PAGE, requires_grad=True)),
        (
            torch.randn(3, PAGE, dtype=torch.bfloat16, requires_grad=True),
            torch.randn(4, PAGE, dtype=torch.bfloat16),
        ),
        (torch.randn(3, PAGE, requires_grad=True), torch.randn(PAGE, 4).t()),
    ],
)
def test_the_rest_is_left_to_torch(x: Tensor, w: Tensor) -> None:
    output = through(x, w)
    assert not is_own(output)
    torch.testing.assert_close(output, F.linear(x, w), rtol=0, atol=0)


def test_weights_of_another_kind_are_left_to_torch() -> None:
    class Packed(Tensor):
        pass

    w = torch.randn(4, PAGE).as_subclass(Packed)
    x = torch.randn(3, PAGE, requires_grad=True)
    assert not is_own(through(x, w))
    assert is_own(through(x, nn.Parameter(torch.randn(4, PAGE), requires_grad=False)))


@pytest.mark.parametrize("method", ["gradient_x_input", "gae", "lrp_ah_ln", "attn_lrp"])
def test_explanations_do_not_depend_on_it(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models()["bert"][1](intermediate_size=PAGE).double()
    runs: list[int] = []
    multiply = blocked_matmul.multiply
    monkeypatch.setattr(blocked_matmul, "multiply", lambda *a: runs.append(1) or multiply(*a))
    inputs = tiny_inputs(model)
    found = wf.explain(inputs, model, method=method, target=1)
    assert runs
    monkeypatch.setattr(blocked_matmul, "FEW", 0)
    runs.clear()
    expected = wf.explain(inputs, model, method=method, target=1)
    assert not runs
    torch.testing.assert_close(found.scores, expected.scores)
