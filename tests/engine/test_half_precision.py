"""Models in half precision: computed in float32, with their weights as they are."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.engine.half_precision import has_half_weights, in_float32
from whyformer.engine.interception import Interception
from whyformer.engine.rules.ledger import Ledger

HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


class Odd(nn.Module):
    """Casts, buffers and in-place writes that name the half-precision dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 3)
        self.register_buffer("scale", torch.full((16,), 1.5))

    def forward(self, ids: Tensor) -> Tensor:
        states = self.embedding(ids).to(self.head.weight.dtype)
        states = self.encoder(states * self.scale)
        kept = torch.zeros_like(self.head.weight[0]).repeat(len(ids), 1)
        kept = kept + torch.zeros(len(ids), 16, dtype=self.head.weight.dtype)
        pooled = states.mean(1).type_as(self.head.weight)
        kept[:] = pooled
        return nn.functional.linear(input=kept, weight=self.head.weight, bias=self.head.bias)


def odd_model() -> nn.Module:
    torch.manual_seed(0)
    return Odd().eval()


@HALVES
@pytest.mark.parametrize("method", ["libragrad", "gae", "attn_lrp", "gradient_x_input"])
def test_casts_to_half_precision_are_left_out(method: str, dtype: torch.dtype) -> None:
    half = odd_model().to(dtype)
    ids = torch.tensor([[4, 8, 15, 16], [23, 2, 9, 1]])
    found = wf.explain(ids, half, method=method, target=1)
    expected = wf.explain(ids, copy.deepcopy(half).float(), method=method, target=1)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-6)
    assert {p.dtype for p in half.parameters()} == {dtype}


@HALVES
def test_the_conserving_default_conserves_in_half_precision(dtype: torch.dtype) -> None:
    attribution = wf.explain(torch.tensor([[4, 8, 15]]), odd_model().to(dtype), target=1)
    torch.testing.assert_close(attribution.conservation, torch.ones(1), rtol=0, atol=1e-4)


def test_no_wide_copy_of_the_weights_is_kept_for_the_backward_pass() -> None:
    half = nn.Linear(64, 64, bias=False).to(torch.bfloat16)
    x = torch.ones(1, 3, 64, requires_grad=True)
    states = x * 1.0
    with Interception({}, Ledger(1)), in_float32([half]):
        output = half(states)
    assert output.dtype == torch.float32
    assert output.grad_fn is not None
    assert [kept.dtype for kept in output.grad_fn.saved_tensors] == [torch.bfloat16]
    output.sum().backward()
    torch.testing.assert_close(x.grad, half.weight.float().sum(0).expand(1, 3, 64))


def test_only_models_with_half_weights_are_widened() -> None:
    assert not has_half_weights(nn.Linear(2, 2))
    assert not has_half_weights(nn.Linear(2, 2).double())
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).half())
    assert has_half_weights(mixed)


@pytest.mark.filterwarnings("ignore:'full_lrp' gave a doubtful explanation")
def test_images_are_not_rounded_to_the_models_precision() -> None:
    """The same photograph gives the same scores, whatever the precision of the weights' copy."""
    half = wf.families()["vit"].tiny().to(torch.bfloat16)
    pixels = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    found = wf.explain({"pixel_values": pixels}, half, method="full_lrp", target=0)
    single = wf.explain(
        {"pixel_values": pixels}, copy.deepcopy(half).float(), method="full_lrp", target=0
    )
    torch.testing.assert_close(found.scores, single.scores, rtol=1e-3, atol=1e-4)


def test_full_lrp_says_that_half_precision_is_too_low_for_it() -> None:
    from whyformer.engine.run import Run
    from whyformer.engine.stacks import find_stacks
    from whyformer.inputs.prepare import prepare
    from whyformer.methods.full_lrp import full_lrp

    for dtype, kinds in ((torch.bfloat16, ["precision"]), (torch.float32, [])):
        model = wf.families()["bert"].tiny().to(dtype)
        family = wf.families()["bert"]
        batch = prepare({"input_ids": [[5, 9, 7]]}, model, None, family)
        run = Run(model, batch, find_stacks(model, "text", family), 0, family)
        assert [reason.kind for reason in full_lrp(run).reasons] == kinds
