"""Vision towers without a batch axis: the patches of all images are one sample."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer as wf
from whyformer.errors import ModelError

WIDTH, PATCH = 8, 6
GRID = torch.tensor([[1, 2, 2], [1, 2, 3]])  # 4 and 6 patches


class Block(nn.Module):
    """Attention within each image."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, states: Tensor, lengths: list[int]) -> Tensor:
        parts = []
        for one in self.qkv(self.norm(states)).split(lengths):
            query, key, value = one.reshape(1, len(one), 3, 2, 4).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(query, key, value)
            parts.append(mixed.transpose(1, 2).reshape(len(one), WIDTH))
        return states + self.out(torch.cat(parts))


class Tower(nn.Module):
    """Patches (patches, numbers) of all images in one list; `order` sorts them first."""

    def __init__(self, order: list[int] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.order = nn.Linear(PATCH, WIDTH), order
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, hidden_states: Tensor, grid_thw: Tensor) -> Tensor:
        states = self.embed(hidden_states)
        states = states if self.order is None else states[self.order]
        for block in self.blocks:
            states = block(states, grid_thw.prod(1).tolist())
        return states


def inputs(grid: Tensor = GRID) -> dict[str, Tensor]:
    patches = torch.randn(
        int(grid.prod(1).sum()), PATCH, generator=torch.Generator().manual_seed(1)
    )
    return {"hidden_states": patches.double(), "grid_thw": grid}


def last(output: Tensor) -> Tensor:
    return output[-1].sum().reshape(1)


def test_scores_are_those_of_the_patches() -> None:
    model = Tower().double()
    a = wf.explain(inputs(), model, method="gradient_x_input", target=last)
    states = model.embed(inputs()["hidden_states"]).detach().requires_grad_()
    after = states
    for block in model.blocks:
        after = block(after, [4, 6])
    last(after).backward()
    expected = (states * states.grad).sum(-1).detach()  # type: ignore[operator]
    torch.testing.assert_close(a.scores, expected.unsqueeze(0))
    assert not a.scores[0, :4].any(), "no image reads another one"


@pytest.mark.parametrize("method", ["libragrad", "attn_lrp", "blend"])
def test_methods_that_conserve_conserve(method: str) -> None:
    a = wf.explain(inputs(), Tower().double(), method=method, target=last)
    assert a.scores.shape == (1, 10)
    assert a.conservation is not None
    torch.testing.assert_close(a.conservation, torch.ones(1, dtype=torch.float64))


def test_the_maps_of_one_image_chain_and_those_of_two_do_not() -> None:
    model = Tower().double()
    assert wf.explain(inputs(GRID[1:]), model, method="gae", target=last).scores.all()
    with pytest.raises(ModelError, match="does not fit the 10 tokens"):
        wf.explain(inputs(), model, method="gae", target=last)


def test_a_tower_that_sorts_its_patches_is_refused() -> None:
    model = Tower(order=[0, 2, 1, 3, *range(4, 10)]).double()
    with pytest.raises(ModelError, match="sorts or mixes the patches"):
        wf.explain(inputs(), model, method="gradient_x_input", target=last)


def test_removing_a_patch_sets_its_numbers_to_zero() -> None:
    model, given = Tower().double(), inputs()
    a = wf.explain(given, model, method="occlusion", target=last)
    patches = given["hidden_states"].clone()
    patches[5] = 0
    with torch.no_grad():
        change = last(model(**given)) - last(model(patches, GRID))
    torch.testing.assert_close(a.scores[0, 5], change[0])


class RowBlock(Block):
    """The same on (1, tokens, hidden)."""

    def forward(self, states: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(states[0], [states.shape[1]]).unsqueeze(0)


class Row(nn.Module):
    """Joins the images of a batch into one row of tokens, as Pixtral does."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, 4, 4)
        self.blocks = nn.ModuleList([RowBlock(), RowBlock()])

    def forward(self, pixel_values: Tensor) -> Tensor:
        states = self.embed(pixel_values).flatten(2).transpose(1, 2).flatten(0, 1).unsqueeze(0)
        for block in self.blocks:
            states = block(states)
        return states


def test_samples_that_the_model_joins_are_explained_one_at_a_time() -> None:
    model, pixels = Row().double(), torch.rand(2, 3, 8, 8).double()
    one = wf.explain(pixels[:1], model, target=lambda output: output[:, -1].sum(1))
    assert one.scores.shape == (1, 4)
    with pytest.raises(ModelError, match="joins the 2 samples into one row") as caught:
        wf.explain(pixels, model, target=lambda output: output[:, -1].sum(1).expand(2))
    assert caught.value.remedy == "Explain one sample at a time"
