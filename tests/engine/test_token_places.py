"""Which token state is which patch or token: found by changing the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.undeclared import WIDTH, Attention, Block
from whyformer.engine.state_axes import StateAxes
from whyformer.errors import ModelError

ROWS, COLUMNS, SIDE = 2, 3, 4
PATCHES = ROWS * COLUMNS
PIXELS = torch.rand(2, 3, ROWS * SIDE, COLUMNS * SIDE, dtype=torch.float64) - 0.5
IDS = torch.tensor([[3, 7, 1, 9, 4], [5, 2, 8, 6, 11]])

To = Callable[[Tensor], Tensor]


class Laid(nn.Module):
    """A block on states of another layout."""

    def __init__(self, to: To, back: To) -> None:
        super().__init__()
        self.block, self.to, self.back = Block(Attention()), to, back

    def forward(self, states: Tensor) -> Tensor:
        return self.back(self.block(self.to(states)))


def same(states: Tensor) -> Tensor:
    return states


class Model(nn.Module):
    """Two blocks on `arrange(embedded)`; the head reads the mean of all tokens.

    `arrange` only moves, copies and adds tokens, so that the relevance of a state is that of the
    embedded patch or token it is made of.
    """

    def __init__(self, arrange: To, to: To = same, back: To = same) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embed, self.arrange, self.to = self.embedding(), arrange, to
        self.blocks = nn.ModuleList([Laid(to, back), Laid(to, back)])
        self.head = nn.Linear(WIDTH, 3)
        self.embedded: Tensor | None = None
        self.double().eval()

    def embedding(self) -> nn.Module:
        raise NotImplementedError

    def run(self, inputs: Tensor) -> Tensor:
        self.embedded = self.embed(inputs)
        states = self.arrange(self.embedded)
        for block in self.blocks:
            states = block(states)
        return self.head(self.to(states).mean(1))


class Images(Model):
    def embedding(self) -> nn.Module:
        return nn.Conv2d(3, WIDTH, SIDE, SIDE)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.run(pixel_values)


class Texts(Model):
    def embedding(self) -> nn.Module:
        return nn.Embedding(20, WIDTH)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.run(ids)


def expected(model: Model, inputs: Tensor, target: int) -> Tensor:
    """Gradient x input at the embedded patches or tokens, (batch, tokens)."""
    value = model(inputs)[:, target].sum()
    assert model.embedded is not None
    (slope,) = torch.autograd.grad(value, model.embedded)
    product = (slope * model.embedded).detach()
    return product.sum(1).flatten(1) if product.dim() == 4 else product.sum(-1)


def line(x: Tensor) -> Tensor:
    """(batch, tokens, features) of a feature map."""
    return x.flatten(2).transpose(1, 2)


def with_extra(x: Tensor, before: int, after: int) -> Tensor:
    numbers = torch.linspace(-1, 1, (before + after) * WIDTH, dtype=x.dtype)
    extra = numbers.reshape(1, -1, WIDTH).expand(len(x), -1, -1)
    return torch.cat([extra[:, :before], x, extra[:, before:]], 1)


ORDER = torch.tensor([4, 0, 5, 2, 1, 3])
ARRANGED: dict[str, tuple[To, To, To]] = {
    "three register tokens before": (lambda x: with_extra(line(x), 3, 0), same, same),
    "a class token before and registers after": (lambda x: with_extra(line(x), 1, 2), same, same),
    "patches in another order": (lambda x: line(x)[:, ORDER], same, same),
    "another order and a token between": (
        lambda x: torch.cat([with_extra(line(x)[:, ORDER[:2]], 0, 1), line(x)[:, ORDER[2:]]], 1),
        same,
        same,
    ),
    "features last": (
        lambda x: x.movedim(1, -1),
        lambda s: s.flatten(1, 2),
        lambda s: s.unflatten(1, (ROWS, COLUMNS)),
    ),
    "features first": (same, line, lambda s: s.transpose(1, 2).unflatten(2, (ROWS, COLUMNS))),
    "tokens before samples": (
        lambda x: line(x).transpose(0, 1),
        lambda s: s.transpose(0, 1),
        lambda s: s.transpose(0, 1),
    ),
    "windows on the axis of samples": (
        lambda x: x.permute(0, 3, 2, 1).flatten(0, 1),
        lambda s: s.reshape(-1, PATCHES, WIDTH),
        lambda s: s.reshape(-1, ROWS, WIDTH),
    ),
}


@pytest.mark.parametrize("name", ARRANGED)
@pytest.mark.parametrize("samples", [1, 2])
def test_patches_are_found_wherever_they_are(name: str, samples: int) -> None:
    model, pixels = Images(*ARRANGED[name]), PIXELS[:samples]
    found = wf.explain(pixels, model, method="gradient_x_input", target=1)
    assert found.streams["image"].grid == (ROWS, COLUMNS)
    torch.testing.assert_close(found.scores, expected(model, pixels, 1))


@pytest.mark.parametrize("name", ARRANGED)
def test_relevance_of_every_layout_sums_to_the_output(name: str) -> None:
    found = wf.explain(PIXELS, Images(*ARRANGED[name]), method="libragrad", target=1)
    assert found.conservation is not None
    torch.testing.assert_close(found.conservation, torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("name", ["patches in another order", "features first"])
def test_states_go_back_in_the_models_layout(name: str) -> None:
    # The path of integrated gradients runs the model on states of its own.
    model = Images(*ARRANGED[name])
    whole = wf.explain(PIXELS, model, method="integrated_gradients", target=1, steps=3)
    alone = wf.explain(PIXELS[1:], model, method="integrated_gradients", target=1, steps=3)
    torch.testing.assert_close(whole.scores[1], alone.scores[0])


def test_attention_walks_follow_the_order_of_patches() -> None:
    plain = Images(line)
    moved = Images(lambda x: line(x)[:, ORDER])
    ours, theirs = (wf.explain(PIXELS, m, method="gae", target=1) for m in (moved, plain))
    torch.testing.assert_close(ours.scores, theirs.scores)


def test_patches_without_a_convolution() -> None:
    class Unfolded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3 * SIDE * SIDE, WIDTH)

        def forward(self, pixels: Tensor) -> Tensor:
            return self.linear(nn.functional.unfold(pixels, SIDE, stride=SIDE).transpose(1, 2))

    model = Images(same)
    model.embed = Unfolded().double()
    model.arrange = lambda x: with_extra(x, 2, 0)
    found = wf.explain({"pixel_values": PIXELS}, model, method="gradient_x_input", target=1)
    assert found.streams[found.main].grid == (ROWS, COLUMNS)
    torch.testing.assert_close(found.scores, expected(model, PIXELS, 1))


def test_random_masking_is_refused() -> None:
    model = Images(lambda x: line(x)[:, torch.randperm(PATCHES)[:3]])
    with pytest.raises(ModelError, match="draws at random which token states"):
        wf.explain(PIXELS, model, target=1)


def test_patches_that_are_mixed_before_the_blocks_are_counted() -> None:
    model = Images(lambda x: line(x) + line(x).mean(1, keepdim=True))
    found = wf.explain(PIXELS, model, method="gradient_x_input", target=1)
    assert found.streams["image"].grid == (ROWS, COLUMNS)


TEXTS: dict[str, tuple[To, To, To]] = {
    "prompt tokens before": (lambda x: with_extra(x, 4, 0), same, same),
    "padding to a window": (lambda x: with_extra(x, 0, 3), same, same),
    "tokens before samples": ARRANGED["tokens before samples"],
    "several streams of states": (
        lambda x: torch.stack([x, 2 * x], 2),
        lambda s: s.sum(2),
        lambda s: torch.stack([s, s / 2], 2),
    ),
}
TEXTS["tokens before samples"] = (lambda x: x.transpose(0, 1), *TEXTS["tokens before samples"][1:])


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("ids", [IDS, IDS[:1], IDS[:, :2]], ids=["two", "one", "square"])
def test_tokens_of_a_text_are_found(name: str, ids: Tensor) -> None:
    model = Texts(*TEXTS[name])
    inputs: dict[str, Any] = {"ids": ids, "attention_mask": torch.ones_like(ids)}
    found = wf.explain(inputs, model, method="gradient_x_input", target=1)
    torch.testing.assert_close(found.scores, expected(model, ids, 1))


def test_frames_of_a_video() -> None:
    from transformers import TimesformerConfig, TimesformerForVideoClassification

    torch.manual_seed(1)
    config = TimesformerConfig(
        image_size=8,
        patch_size=4,
        num_frames=3,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=16,
    )
    model = TimesformerForVideoClassification(config).double().eval()
    video = torch.rand(2, 3, 3, 8, 8, dtype=torch.float64)
    found = wf.explain({"pixel_values": video}, model, method="gradient_x_input", target=1)
    seen: list[Tensor] = []
    model.timesformer.encoder.layer[0].register_forward_pre_hook(
        lambda block, args: seen.append(args[0])
    )
    (slope,) = torch.autograd.grad(model(video).logits[:, 1].sum(), seen)
    product = (slope * seen[0]).sum(-1)[:, 1:].detach()
    # The model has all frames of a patch in a row; the scores have all patches of a frame.
    assert found.streams["video"].grid == (3 * 2, 2)
    torch.testing.assert_close(
        found.scores, product.unflatten(1, (4, 3)).transpose(1, 2).flatten(1)
    )


def test_axes_there_and_back() -> None:
    states = torch.rand(2, 5, 3, 4)
    for axes in (
        StateAxes(proven=True),
        StateAxes(channels_first=True, proven=True),
        StateAxes(joint=True, proven=True),
    ):
        tokens = axes.to_tokens(states, 2)
        assert tokens.dim() == 3
        assert torch.equal(axes.from_tokens(tokens, states), states)
    folded, last = torch.rand(6, 5, 4), torch.rand(5, 2, 4)
    axes = StateAxes(proven=True)
    assert axes.to_tokens(folded, 2).shape == (2, 15, 4)
    assert torch.equal(axes.from_tokens(axes.to_tokens(folded, 2), folded), folded)
    axes = StateAxes(batch_first=False)
    assert torch.equal(axes.from_tokens(axes.to_tokens(last, 2), last), last)
