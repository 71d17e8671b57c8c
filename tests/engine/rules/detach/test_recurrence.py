"""Recurrences against their definitions with constant parameters (MambaLRP, Jafari et al. 2024)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.kimi_linear import modeling_kimi_linear as kimi_linear
from transformers.models.mamba import modeling_mamba as mamba
from transformers.models.mamba2 import modeling_mamba2 as mamba2
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next
from transformers.models.rwkv import modeling_rwkv as rwkv

from whyformer.engine.interception import Interception
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.rules.ledger import Ledger, Place
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.scope import add_hooks
from whyformer.models.recurrences import mark_mixing_parameters, recurrence_hooks

Random = Callable[..., Tensor]
Mix = Callable[[Tensor], Tensor]
DETACHED = detach_table(attention="detach", norm="detach", activation="identity", product="gate")
ATTN_LRP = detach_table(
    attention="uniform", norm="detach", activation="identity", product="uniform"
)
CONSERVING = pytest.mark.parametrize("table", [DETACHED, ATTN_LRP], ids=["detached", "attn_lrp"])
TOKENS, WIDTH, STATE = 5, 3, 2


def model_of(python_module: Any, mix: Mix) -> nn.Module:
    """A model whose class stands in a Python module, next to the recurrences that it calls."""
    body = {"forward": lambda self, x: mix(x), "__module__": python_module.__name__}
    return type("Mixer", (nn.Module,), body)()


def relevance_under(table: Mapping[Any, Any], model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """The output of the model's sum over tokens, and the relevance of x, inside a block."""
    leaf = tags.add_tag(x.clone().requires_grad_(), tags.LEAF)
    ledger = Ledger(batch=len(x))
    ledger.place = Place("tokens", 0, x.shape[1])
    hooks = add_hooks(recurrence_hooks(model.modules()))
    with hooks, mark_mixing_parameters(model.modules()), Interception(table, ledger, double=True):
        output = model(leaf.clone())
        value = (output * _weights(output)).sum()
    (gradient,) = torch.autograd.grad(value, leaf)
    assert not any(leak.abs().max() > 1e-12 for leak in ledger.leaks.values())
    return output.detach(), x * gradient


def relevance_by_hand(mix: Mix, x: Tensor) -> tuple[Tensor, Tensor]:
    """The same by plain autograd: `mix` detaches what is constant."""
    leaf = x.clone().requires_grad_()
    output = mix(leaf)
    (gradient,) = torch.autograd.grad((output * _weights(output)).sum(), leaf)
    return output.detach(), x * gradient


def _weights(output: Tensor) -> Tensor:
    return torch.arange(output.numel(), dtype=output.dtype).cos().reshape(output.shape)


def assert_equal_and_conserved(
    found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]
) -> None:
    (output, relevance), (output_by_hand, relevance_by_hand) = found, expected
    torch.testing.assert_close(output, output_by_hand, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(relevance, relevance_by_hand, rtol=1e-9, atol=1e-9)
    total = (output * _weights(output)).sum()
    torch.testing.assert_close(relevance.sum(), total, rtol=1e-9, atol=1e-9)


# -- selective state spaces ------------------------------------------------------------------------


def state_space(x: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """h_t = exp(step_t a) h_(t-1) + step_t b_t x_t and y_t = c_t h_t; all but x is constant."""
    step, b, c = step.detach(), b.detach(), c.detach()
    state = x.new_zeros(*x[:, 0].shape, b.shape[-1])
    outputs = []
    for t in range(x.shape[1]):
        decay = torch.exp(step[:, t, :, None] * a)
        state = decay * state + step[:, t, :, None] * b[:, t, None] * x[:, t, :, None]
        outputs.append((state * c[:, t, None]).sum(-1))
    return torch.stack(outputs, 1)


@CONSERVING
def test_mamba_is_linear_in_its_input(random: Random, table: Any) -> None:
    to_step, to_b, to_c = random(WIDTH, WIDTH), random(WIDTH, STATE), random(WIDTH, STATE)
    a = -random(WIDTH, STATE).exp()

    def mix(x: Tensor) -> Tensor:
        scanned = mamba.mamba_selective_scan(
            x.transpose(1, 2),
            (x @ to_step).transpose(1, 2),
            a,
            B=(x @ to_b).transpose(1, 2),
            C=(x @ to_c).transpose(1, 2),
            delta_softplus=True,
        )
        return scanned.transpose(1, 2)

    def twin(x: Tensor) -> Tensor:
        return state_space(x, F.softplus(x @ to_step), a, x @ to_b, x @ to_c)

    x = random(2, TOKENS, WIDTH)
    found = relevance_under(table, model_of(mamba, mix), x)
    assert_equal_and_conserved(found, relevance_by_hand(twin, x))


@CONSERVING
def test_mamba_2_in_chunks_is_linear_in_its_input(random: Random, table: Any) -> None:
    """One step per head, and chunks of 2 tokens: their states pass from chunk to chunk."""
    to_step, to_b, to_c = random(WIDTH, 1), random(WIDTH, STATE), random(WIDTH, STATE)
    a = -random(1).exp()

    def mix(x: Tensor) -> Tensor:
        scanned = mamba2.mamba2_chunk_scan(
            x.unsqueeze(2),
            x @ to_step,
            a,
            (x @ to_b).unsqueeze(2),
            (x @ to_c).unsqueeze(2),
            chunk_size=2,
            dt_softplus=True,
        )
        return scanned.squeeze(2)

    def twin(x: Tensor) -> Tensor:
        step = F.softplus(x @ to_step).expand_as(x)
        return state_space(x, step, a.expand(WIDTH, STATE), x @ to_b, x @ to_c)

    x = random(2, TOKENS, WIDTH)
    found = relevance_under(table, model_of(mamba2, mix), x)
    assert_equal_and_conserved(found, relevance_by_hand(twin, x))


# -- delta rules -----------------------------------------------------------------------------------


def delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """S_t = exp(g_t) S_(t-1) + k_t (beta_t (v_t - k_t exp(g_t) S_(t-1))) and o_t = q_t S_t.

    All but v is constant: the state is then linear in the values. One head; g is (batch, token, 1)
    or has an entry for each channel of the key.
    """
    # The models add 1e-6 to the square of a norm.
    q, k = (x.detach() * (x.detach().square().sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (q, k))
    g, beta = g.detach(), beta.detach()
    state = v.new_zeros(len(v), k.shape[-1], v.shape[-1])
    outputs = []
    for t in range(v.shape[1]):
        state = state * g[:, t, :, None].exp()
        predicted = (state * k[:, t, :, None]).sum(1)
        update = beta[:, t, None] * (v[:, t] - predicted)
        state = state + k[:, t, :, None] * update[:, None]
        outputs.append((state * q[:, t, :, None]).sum(1) * k.shape[-1] ** -0.5)
    return torch.stack(outputs, 1)


DELTA_RULES = {
    "chunks": (qwen3_next, "torch_chunk_gated_delta_rule", {"chunk_size": 2}, False),
    "steps": (qwen3_next, "torch_recurrent_gated_delta_rule", {}, False),
    "channels, chunks": (kimi_linear, "chunk_kimi_delta_attention", {"chunk_size": 2}, True),
    "channels, steps": (
        kimi_linear,
        "recurrent_kimi_delta_attention",
        {"initial_state": None, "output_final_state": False},
        True,
    ),
}


@CONSERVING
@pytest.mark.parametrize("name", DELTA_RULES)
def test_delta_rules_are_linear_in_their_values(random: Random, table: Any, name: str) -> None:
    python_module, function, settings, per_channel = DELTA_RULES[name]
    to_q, to_k, to_v, to_g = (random(WIDTH, WIDTH) for _ in range(4))
    to_beta = random(WIDTH)

    def parts(x: Tensor) -> tuple[Tensor, ...]:
        g = -F.softplus(x @ to_g) if per_channel else -F.softplus(x @ to_g[:, :1])
        return x @ to_q, x @ to_k, x @ to_v, g, torch.sigmoid(x @ to_beta)

    def mix(x: Tensor) -> Tensor:
        q, k, v, g, beta = parts(x)
        outputs, _ = getattr(python_module, function)(
            *(part.unsqueeze(2) for part in (q, k, v)),
            g=g.unsqueeze(2) if per_channel else g,
            beta=beta.unsqueeze(2),
            use_qk_l2norm_in_kernel=True,
            **settings,
        )
        return outputs.squeeze(2)

    x = random(2, TOKENS, WIDTH)
    found = relevance_under(table, model_of(python_module, mix), x)
    assert_equal_and_conserved(found, relevance_by_hand(lambda x: delta_rule(*parts(x)), x))


# -- exponentials ----------------------------------------------------------------------------------


@CONSERVING
def test_rwkv_is_linear_in_its_values(random: Random, table: Any) -> None:
    """It has no parameter names of its own: its exponentials are the constants."""
    to_k, to_v, decay, first = random(WIDTH, WIDTH), random(WIDTH, WIDTH), *random(2, WIDTH)

    def mix(x: Tensor) -> Tensor:
        return rwkv.rwkv_linear_attention_cpu(decay, first, x @ to_k, x @ to_v)[0]

    def twin(x: Tensor) -> Tensor:
        k, v = (x @ to_k).detach(), x @ to_v
        outputs = []
        for t in range(x.shape[1]):
            past = torch.arange(t - 1, -1, -1)[:, None]
            scores = torch.cat([k[:, :t] - past * decay.exp(), (k[:, t] + first)[:, None]], 1)
            outputs.append((scores.softmax(1) * v[:, : t + 1]).sum(1))
        return torch.stack(outputs, 1)

    x = random(2, TOKENS, WIDTH)
    found = relevance_under(table, model_of(rwkv, mix), x)
    assert_equal_and_conserved(found, relevance_by_hand(twin, x))


def test_an_exponential_outside_of_the_blocks_keeps_its_gradient() -> None:
    leaf = tags.add_tag(torch.ones(1, 2, requires_grad=True), tags.LEAF)
    ledger = Ledger(batch=1)
    with Interception(DETACHED, ledger):
        value = torch.exp(leaf.clone()).sum()
    (gradient,) = torch.autograd.grad(value, leaf)
    assert gradient.gt(1).all()
    assert set(ledger.leaks) == {"exp"}


# -- where recurrences are found -------------------------------------------------------------------


def gated_sum(value: Tensor, query: Tensor, key: Tensor, igate: Tensor, fgate: Tensor) -> Tensor:
    """A stand-in for an mLSTM, whose weights are products of all that decides the mixing."""
    return (query * key * igate * fgate) * value


class Backend(nn.Module):
    """A recurrence that is a module, as in xLSTM."""

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, igate: Tensor, fgate: Tensor
    ) -> Tensor:
        return (query * key * igate * fgate) * value


class OfFunction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        previous = x.roll(1, 1)
        return gated_sum(x, previous, key=previous, igate=previous, fgate=previous)


class OfModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backend = Backend()

    def forward(self, x: Tensor) -> Tensor:
        previous = x.roll(1, 1)
        return self.backend(previous, previous, x, igate=previous, fgate=previous)


@pytest.mark.parametrize("model", [OfFunction(), OfModule()], ids=["function", "module"])
def test_only_values_get_relevance(random: Random, model: nn.Module) -> None:
    x = random(2, TOKENS, WIDTH)
    output, relevance = relevance_under(DETACHED, model, x)
    torch.testing.assert_close(relevance, output * _weights(output))


@pytest.mark.parametrize("model", [OfFunction(), OfModule()], ids=["function", "module"])
def test_a_method_without_a_rule_follows_the_gradient(random: Random, model: nn.Module) -> None:
    x = random(2, TOKENS, WIDTH)
    found = relevance_under(detach_table(), model, x)
    torch.testing.assert_close(found, relevance_by_hand(model, x))


def test_functions_come_back_after_an_error() -> None:
    before = gated_sum

    def fail() -> None:
        with mark_mixing_parameters([OfFunction()]):
            assert gated_sum is not before
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert gated_sum is before


def test_other_threads_keep_their_gradients() -> None:
    x = torch.full((1, 1), 2.0, requires_grad=True)

    def train() -> None:
        OfFunction()(x).sum().backward()

    model = OfFunction()
    with mark_mixing_parameters(model.modules()), Interception(DETACHED, Ledger(batch=1)):
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert x.grad is not None
    assert x.grad.item() == 5 * 2**4
