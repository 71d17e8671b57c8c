"""Parts that the model runs with gradients off: constants, and a warning where they matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.engine.test_hidden_operations import IDS, Block, Net, Swish, explain
from whyformer.errors import ConservationWarning, ModelError, TrustWarning
from whyformer.models.families.tiny import tiny_inputs, tiny_models

METHODS = ("libragrad", "attn_lrp", "gradient_x_input", "gae", "transformer_attribution")


class Indexed(Block):
    """Chooses by a small attention under no_grad which channels pass."""

    def __init__(self) -> None:
        super().__init__(nn.functional.silu)
        self.index = nn.Linear(16, 16)

    @torch.no_grad()
    def choose(self, x: Tensor) -> Tensor:
        scores = (self.index(x) @ x.transpose(-1, -2)).softmax(-1) @ x
        return scores.topk(8, dim=-1).indices

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros_like(x).scatter(-1, self.choose(x), 1.0)
        return x + super().forward(x) * mask


class IndexedByHand(Indexed):
    """The same, with the choice detached instead."""

    def choose(self, x: Tensor) -> Tensor:
        return super().choose(x.detach())


class Carried(Indexed):
    """What it computes under no_grad is added to the states."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            early = self.index(x)
        return super().forward(x) + early.to(x.dtype) * 2


class Blind(Net):
    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        with torch.no_grad():
            early = self.blocks[0](x)
        return self.head(self.blocks[2](self.blocks[1](x + early))[:, 0])


def net(*blocks: Callable[[], nn.Module]) -> Net:
    model = Net()
    torch.manual_seed(1)
    model.blocks = nn.ModuleList([make() for make in blocks])
    return model.double().eval()


@pytest.mark.parametrize("method", METHODS)
def test_a_choice_is_a_constant(method: str) -> None:
    found = explain(net(Indexed, Indexed), method)
    torch.testing.assert_close(
        found.scores, explain(net(IndexedByHand, IndexedByHand), method).scores
    )
    if found.conservation is not None and method != "gradient_x_input":
        torch.testing.assert_close(found.conservation, torch.ones(3).double())


def test_gradient_x_input_is_that_of_plain_autograd() -> None:
    model = net(Indexed, Indexed)
    states = model.embedding(IDS).detach().requires_grad_()
    value = model.head(model.blocks[1](model.blocks[0](states))[:, 0])[:, 1].sum()
    (gradient,) = torch.autograd.grad(value, states)
    expected = (states * gradient).sum(-1).detach()
    torch.testing.assert_close(explain(model, "gradient_x_input").scores, expected)


@pytest.mark.parametrize("method", METHODS)
def test_numbers_that_enter_the_value_are_named(method: str) -> None:
    with pytest.warns(wf.errors.TrustWarning, match=r"gradients off .* in Carried"):
        explain(net(Indexed, Carried), method)


def test_blocks_that_start_with_gradients_off_are_refused() -> None:
    with pytest.raises(ModelError, match="enter the first block of Blind with gradients off"):
        explain(Blind(), "libragrad")


# -- custom autograd functions --------------------------------------------------------------------


class Attend(torch.autograd.Function):
    """A softmax that overwrites its own output."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        output = torch.softmax(scores, -1)
        output.masked_fill_(output < 1e-12, 0)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (output,) = ctx.saved_tensors
        return output * (gradient - (gradient * output).sum(-1, keepdim=True))


class AttendBlock(Block):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return Attend.apply(q @ k.transpose(-1, -2) / 2) @ v


class Straight(torch.autograd.Function):
    """Rounds, and passes the gradient straight through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x * 8).round() / 8

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Rerun(torch.autograd.Function):
    """A checkpoint of one's own: the graph is built in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: nn.Module) -> Tensor:
        ctx.block = block
        ctx.save_for_backward(x)
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.block(x)
        return torch.autograd.grad(output, x, gradient)[0], None


class Rerunning(Block):
    def forward(self, x: Tensor) -> Tensor:
        return Rerun.apply(x, super().forward)


@pytest.mark.parametrize("method", METHODS)
def test_a_function_with_the_gradient_of_its_operations_runs_by_them(method: str) -> None:
    torch.testing.assert_close(
        explain(Net(Swish.apply), method).scores, explain(Net(), method).scores
    )


@pytest.mark.parametrize("method", ["libragrad", "attn_lrp", "gradient_x_input", "gae", "rollout"])
def test_attention_inside_a_function_is_seen(method: str) -> None:
    def make(kind: type[Block]) -> Net:
        return net(*[lambda: kind(nn.functional.silu)] * 2)

    torch.testing.assert_close(
        explain(make(AttendBlock), method).scores, explain(make(Block), method).scores
    )


def test_a_function_with_another_gradient_stays_closed() -> None:
    with pytest.warns(ConservationWarning, match="the autograd function Straight"):
        explain(Net(Straight.apply), "libragrad")


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_of_ones_own_is_refused(method: str) -> None:
    with pytest.raises(ModelError, match="inside a custom autograd function"):
        explain(net(Indexed, lambda: Rerunning(nn.functional.silu)), method)


def test_functions_are_as_before_afterwards() -> None:
    kind = torch.autograd.function._SingleLevelFunction
    explain(Net(Swish.apply), "libragrad")
    with pytest.raises(ModelError, match="custom"):
        explain(net(lambda: Rerunning(nn.functional.silu)), "libragrad")
    assert "apply" not in vars(kind)


@pytest.mark.parametrize("method", ["libragrad", "gae", "transformer_attribution", "blend"])
def test_a_declared_family_is_followed_too(method: str) -> None:
    model = tiny_models()["bert"][1]()

    def add_constant(layer: nn.Module, args: object, output: Tensor) -> Tensor:
        with torch.no_grad():
            constant = output * 0.5
        return output + constant

    model.bert.encoder.layer[1].output.register_forward_hook(add_constant)
    with pytest.warns(TrustWarning, match="with gradients off"):
        wf.explain(tiny_inputs(model), model, method=method, target=1)
