"""Operations of real models that lost relevance: each in a small block that must conserve."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.engine.test_hidden_operations import Block, Net, explain

CONSERVING = ("libragrad", "attn_lrp")


class FourierBlock(Block):
    """FNet: the real part of a Fourier transform mixes the tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.fft.fftn(x, dim=(1, 2)).real)


class ComplexBlock(Block):
    """Llama 4: rotary positions as complex numbers."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turn = torch.polar(torch.ones(q.shape[-2], 1), torch.arange(q.shape[-2])[:, None] * 0.3)
        q, k = (
            torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turn)
            .flatten(-2)
            .type_as(x)
            for x in (q, k)
        )
        return super().attend(q, k, v)


class Routed(Block):
    """PhiMoE: the weights of two experts are taken out of softmaxes and concatenated."""

    def forward(self, x: Tensor) -> Tensor:
        scores = self.inputs[0](x)
        first = scores.softmax(-1).max(-1, keepdim=True).values
        second = scores.mul(2).softmax(-1).max(-1, keepdim=True).values
        weights = torch.cat([first, second], -1)
        y = super().forward(x)
        return y * weights[..., :1] + F.relu(y) * weights[..., 1:]


class XIELU(nn.Module):
    """Apertus: an activation of expm1 and squares."""

    def forward(self, x: Tensor) -> Tensor:
        low = (torch.expm1(torch.min(x, torch.tensor(-1e-6, dtype=x.dtype))) - x) * 0.7 + 0.5 * x
        return torch.where(x > 0, 0.8 * x * x + 0.5 * x, low)


@pytest.mark.parametrize("method", CONSERVING)
@pytest.mark.parametrize("kind", [FourierBlock, ComplexBlock, Routed])
def test_blocks_conserve(kind: type[Block], method: str) -> None:
    model = Net()
    torch.manual_seed(1)
    model.blocks = nn.ModuleList([kind(F.silu) for _ in range(2)])
    found = explain(model.double().eval(), method)
    torch.testing.assert_close(found.conservation, torch.ones(3).double(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", CONSERVING)
def test_an_activation_of_expm1_conserves(method: str) -> None:
    found = explain(Net(XIELU()), method)
    torch.testing.assert_close(found.conservation, torch.ones(3).double(), rtol=0, atol=1e-8)


# -- convolutions ---------------------------------------------------------------------------------


class Convolved(Block):
    def __init__(self, convolution: nn.Module) -> None:
        super().__init__(F.silu)
        self.convolution = convolution

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.convolution(x.transpose(1, 2)).transpose(1, 2)


def convolved(**settings: object) -> Net:
    model = Net()
    torch.manual_seed(1)
    layer = nn.Conv1d(16, 16, 3, **settings)  # type: ignore[arg-type]
    model.blocks = nn.ModuleList([Convolved(layer), Block(F.silu)])
    return model.double().eval()


def test_lrp_takes_a_padding_by_its_name() -> None:
    found = explain(convolved(padding="same"), "full_lrp")
    torch.testing.assert_close(found.scores, explain(convolved(padding=1), "full_lrp").scores)


def test_lrp_of_a_transposed_convolution_is_that_of_its_turned_kernel() -> None:
    model, plain = convolved(padding=1), convolved(padding=1)
    turned = nn.ConvTranspose1d(16, 16, 3, 1, 1).double()
    kernel = plain.blocks[0].convolution
    turned.weight.data = kernel.weight.data.transpose(0, 1).flip(-1).contiguous()
    turned.bias.data = kernel.bias.data.clone()
    model.blocks.load_state_dict(plain.blocks.state_dict())
    model.blocks[0].convolution = turned
    torch.testing.assert_close(explain(model, "full_lrp").scores, explain(plain, "full_lrp").scores)


class Normed(Block):
    """A batch norm whose gradient arrives transposed."""

    def __init__(self) -> None:
        super().__init__(F.silu)
        self.norm = nn.BatchNorm2d(16)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.norm(x.transpose(1, 2).unsqueeze(-1))
        return super().forward(rows.view(*rows.shape[:2], -1).transpose(1, 2))


@pytest.mark.parametrize("method", ["gradient_x_input", "libragrad"])
def test_a_batch_norm_of_one_sample_has_the_gradient_of_a_batch(method: str) -> None:
    model = Net()
    torch.manual_seed(1)
    model.blocks = nn.ModuleList([Normed(), Normed()])
    model.double().eval()
    ids = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 3]])
    alone = explain(model, method, ids[:1]).scores[0]
    torch.testing.assert_close(alone, explain(model, method, ids).scores[0])
