"""A weight that changed between two explanations: no value from the first one is used again."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.models.families import families


def scores(model: nn.Module) -> Tensor:
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8, 9]])}
    return wf.explain(inputs, model, method="transformer_attribution", target=0).scores.detach()


def seen_by_torch(w: Tensor) -> None:
    w.mul_(1.1)


def unseen_by_torch(w: Tensor) -> None:
    w.data[3] *= 1.5


def small_and_unseen(w: Tensor) -> None:
    w.data[3, 4] += 1e-4


def by_numpy(w: Tensor) -> None:
    w.detach().numpy()[:, 2:4] = 0.1


@pytest.mark.parametrize("change", [seen_by_torch, unseen_by_torch, small_and_unseen, by_numpy])
def test_a_changed_weight_is_explained_anew(change: Callable[[Tensor], None]) -> None:
    model = families["bert"].tiny().double()
    old = [scores(model) for _ in range(3)][-1]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "encoder.layer" in name and parameter.dim() == 2:
                change(parameter)
    found = scores(model)
    torch.testing.assert_close(found, scores(copy.deepcopy(model)), rtol=1e-10, atol=1e-12)
    assert (found - old).abs().max() > 1e-7 * old.abs().max()
