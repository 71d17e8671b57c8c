"""|w| that is kept: when, how long, and that no change of a weight is missed."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.engine.rules import magnitudes
from whyformer.engine.rules.magnitudes import MAGNITUDES, Magnitudes, stamped
from whyformer.models.families import families


def weight(rows: int = 256, columns: int = 300) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns, generator=torch.Generator().manual_seed(0)))


def of(store: Magnitudes, w: Tensor) -> Tensor | None:
    """What the store has of a weight, after a forward pass."""
    with torch.no_grad():
        _, imprint = stamped(torch.ones(3, w.shape[-1], dtype=w.dtype), w, None)
    found = store.of(w, imprint=imprint)
    return None if found is None else found.weights


def kept(store: Magnitudes, w: Tensor) -> Tensor:
    """What the store has of a weight that it has met before."""
    of(store, w)
    found = of(store, w)
    assert found is not None
    return found


def test_the_second_time_it_is_kept() -> None:
    store, w = Magnitudes(), weight()
    assert of(store, w) is None
    assert store.size() == 0
    found = of(store, w)
    assert found is not None
    torch.testing.assert_close(found, w.detach().abs(), rtol=0, atol=0)
    assert of(store, w) is found
    assert store.size() == w.nbytes


ALIASES: dict[str, Callable[[Tensor], Tensor]] = {
    "detached": lambda w: w.detach(),
    "data": lambda w: w.data,
    "viewed": lambda w: w.view(w.shape),
}


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_the_same_weight(alias: str) -> None:
    store, w = Magnitudes(), weight()
    assert kept(store, w) is of(store, ALIASES[alias](w))


def test_views_of_one_memory_are_told_apart() -> None:
    """q, k and v in one parameter, and a weight that is used turned round."""
    store, w = Magnitudes(), weight(768, 256)
    for part in (*w.chunk(3), w, w.t()):
        torch.testing.assert_close(kept(store, part), part.detach().abs(), rtol=0, atol=0)


@torch.no_grad()
def in_place(w: nn.Parameter) -> None:
    w.mul_(-2)


@torch.no_grad()
def one_number(w: nn.Parameter) -> None:
    w[3, 4] += 1


def by_an_optimizer(w: nn.Parameter) -> None:
    w.grad = torch.ones_like(w)
    torch.optim.AdamW([w], lr=0.1).step()


def by_a_state_dict(w: nn.Parameter) -> None:
    module = nn.Module()
    module.w = w
    module.load_state_dict({"w": torch.ones_like(w)})


def unseen_by_torch(w: nn.Parameter) -> None:
    w.data.mul_(2)


def rows_unseen_by_torch(w: nn.Parameter) -> None:
    w.data[64:128] = 0  # a head taken out


def one_number_unseen_by_torch(w: nn.Parameter) -> None:
    w.data[3, 4] += 1e-3


def two_numbers_swapped_unseen_by_torch(w: nn.Parameter) -> None:
    w.data[7, [1, 2]] = w.data[7, [2, 1]].clone()


def by_numpy(w: nn.Parameter) -> None:
    w.detach().numpy()[:, 100:200] = 1


def another_type(w: nn.Parameter) -> None:
    w.data = w.data.double()


@pytest.mark.parametrize(
    "change",
    [
        in_place,
        one_number,
        by_an_optimizer,
        by_a_state_dict,
        unseen_by_torch,
        rows_unseen_by_torch,
        one_number_unseen_by_torch,
        two_numbers_swapped_unseen_by_torch,
        by_numpy,
        another_type,
    ],
)
def test_a_changed_weight_is_another(change: Callable[[nn.Parameter], None]) -> None:
    store, w = Magnitudes(), weight()
    kept(store, w)
    change(w)
    assert of(store, w) is None
    torch.testing.assert_close(kept(store, w), w.detach().abs(), rtol=0, atol=0)
    assert store.size() == w.nbytes


def test_it_goes_with_the_weight() -> None:
    store, w = Magnitudes(), weight()
    alias = w.detach()
    kept(store, w)
    del w
    gc.collect()
    assert store.size() == alias.nbytes, "the memory is still there, under another name"
    del alias
    gc.collect()
    assert store.size() == 0


def test_no_more_than_the_limit() -> None:
    first, second, third = weight(), weight(), weight()
    store = Magnitudes(limit=2 * first.nbytes)
    kept(store, first)
    kept(store, second)
    assert [of(store, third) for _ in range(3)] == [None] * 3
    del first
    gc.collect()
    assert of(store, third) is not None


def test_what_is_not_kept() -> None:
    store = Magnitudes()
    with torch.inference_mode():
        inference = torch.randn(256, 300)
    small = torch.randn(8, magnitudes.SMALLEST // 8 - 1)
    for w in (inference, small, torch.randn(256, 600)[:, ::2]):
        assert [of(store, w) for _ in range(3)] == [None] * 3


def test_copies_and_files_do_not_carry_it() -> None:
    layer = nn.Linear(300, 256)
    before = len(pickle.dumps(layer))
    kept(MAGNITUDES, layer.weight)
    size = MAGNITUDES.size()
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    again = copy.deepcopy(layer)
    assert len(pickle.dumps(layer)) == before
    assert file.tell() < 1.1 * layer.weight.nbytes
    assert MAGNITUDES.size() == size
    assert vars(layer.weight) == vars(again.weight) == {}
    assert of(MAGNITUDES, again.weight) is None


# -- in explanations -----------------------------------------------------------------------------


def explained(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    scores = wf.explain(inputs, model, method="transformer_attribution", target=0).scores
    return scores.detach()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> tuple[nn.Module, dict[str, Tensor]]:
    """A small model, all of whose weights are large enough."""
    monkeypatch.setattr(magnitudes, "SMALLEST", 1)
    return families["bert"].tiny(), {"input_ids": torch.tensor([[5, 6, 7, 8, 9]])}


def test_what_is_kept_changes_no_explanation(tiny: tuple[nn.Module, dict[str, Tensor]]) -> None:
    before = MAGNITUDES.size()
    first = explained(*tiny)
    assert MAGNITUDES.size() == before
    second = explained(*tiny)
    assert MAGNITUDES.size() > before
    third = explained(*tiny)
    assert torch.equal(first, second)
    assert torch.equal(first, third)


def test_new_weights_are_explained_anew(tiny: tuple[nn.Module, dict[str, Tensor]]) -> None:
    model, inputs = tiny
    old = [explained(model, inputs) for _ in range(3)][-1]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape).mul_(0.05))
    fresh = copy.deepcopy(model)
    found = explained(model, inputs)
    assert torch.equal(found, explained(fresh, inputs))
    assert not torch.equal(found, old)


def test_a_deleted_model_takes_it_along(tiny: tuple[nn.Module, dict[str, Tensor]]) -> None:
    before = MAGNITUDES.size()
    model = copy.deepcopy(tiny[0])
    for _ in range(2):
        explained(model, tiny[1])
    assert MAGNITUDES.size() > before
    del model
    gc.collect()
    assert MAGNITUDES.size() == before
