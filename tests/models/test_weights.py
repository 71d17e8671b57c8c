"""Broken weights are found at once, and found again after they change."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from whyformer.errors import ModelError
from whyformer.models import weights
from whyformer.models.weights import check_weights


def test_finite_weights_pass_and_are_not_summed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Linear(3, 3)
    check_weights(module)
    monkeypatch.setattr(weights, "_suspects", lambda tensors: pytest.fail("checked again"))
    check_weights(module)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_broken_weights_are_named(value: float) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    check_weights(module)
    with torch.no_grad():
        module[1].weight[0, 0] = value
    with pytest.raises(ModelError, match=r"Sequential has NaN or infinite weights in '1\.weight'"):
        check_weights(module)


def test_opposite_infinities_do_not_cancel() -> None:
    module = nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[float("inf"), -float("inf")]]))
    with pytest.raises(ModelError, match="'weight'"):
        check_weights(module)


def test_many_broken_weights_are_counted() -> None:
    module = nn.Sequential(*(nn.Linear(1, 1) for _ in range(3)))
    for parameter in module.parameters():
        nn.init.constant_(parameter, float("nan"))
    with pytest.raises(ModelError, match=r"'0\.weight', '0\.bias', '1\.weight' and 3 more"):
        check_weights(module)


def test_replaced_weights_are_checked() -> None:
    module = nn.Linear(2, 2)
    check_weights(module)
    module.bias = nn.Parameter(torch.tensor([0.0, float("nan")]))
    with pytest.raises(ModelError, match="'bias'"):
        check_weights(module)


def test_writes_through_data_are_seen_when_asked_again() -> None:
    module = nn.Linear(2, 2)
    check_weights(module)
    module.weight.data[0, 0] = float("nan")
    with pytest.raises(ModelError, match="'weight'"):
        check_weights(module, again=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_large_weights_are_not_infinite(dtype: torch.dtype) -> None:
    module = nn.Linear(64, 64).to(dtype)
    nn.init.constant_(module.weight, torch.finfo(dtype).max)
    check_weights(module)


def test_infinite_buffers_are_masks_and_nan_buffers_are_not() -> None:
    module = nn.Linear(1, 1)
    module.register_buffer("causal", torch.full((2, 2), -float("inf")).triu(1))
    check_weights(module)
    module.register_buffer("causal", torch.tensor([float("nan")]))
    with pytest.raises(ModelError, match="'causal'"):
        check_weights(module)


def test_modules_without_weights() -> None:
    check_weights(nn.ReLU())
    with pytest.raises(ModelError, match="has no weights yet: 'weight', 'bias' on the meta device"):
        check_weights(nn.Linear(2, 2, device="meta"))


def test_inference_tensors_are_checked_every_time() -> None:
    with torch.inference_mode():
        module = nn.Linear(2, 2)
        check_weights(module)
        module.weight.fill_(float("nan"))
        with pytest.raises(ModelError, match="'weight'"):
            check_weights(module)


def test_another_tensor_in_the_same_place_is_checked() -> None:
    module = nn.Linear(1000, 1000)
    check_weights(module)
    del module.weight  # its memory is free, and likely to be given to the next of its size
    module.weight = nn.Parameter(torch.full((1000, 1000), float("nan")))
    with pytest.raises(ModelError, match="'weight'"):
        check_weights(module)


def test_what_was_checked_is_not_kept_alive() -> None:
    module = nn.Linear(2, 2)
    check_weights(module)
    old = weakref.ref(module.weight)
    module.weight = nn.Parameter(torch.ones(2, 2))
    gc.collect()
    assert old() is None


def test_a_part_that_was_added_is_checked() -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    check_weights(module)
    module.append(nn.Linear(2, 2))
    nn.init.constant_(module[1].weight, float("nan"))
    with pytest.raises(ModelError, match=r"'1\.weight'"):
        check_weights(module)
