"""Mixtures of experts, state spaces and hybrids: relevance adds up, and routers by hand."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

import whyformer as wf
from whyformer.engine.interception import Interception
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.rules.ledger import Ledger, Place
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.models.families.tiny import DECODER, EXPERTS, tiny_model

MOE = {**DECODER, **EXPERTS}
STATES = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_chunk_size": 8,
}
LATENT = {
    **MOE,
    "num_key_value_heads": 4,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
}
WIDTHS = {"vocab_size": 60, "d_model": 32, "pad_token_id": 0, "expert_capacity": 64}
ROPE = {"rope_type": "default", "rope_theta": 1e4}
LINEAR = ["linear_attention", "full_attention"]
# Class and config of a small model of every family, by model type.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "mixtral": ("MixtralForCausalLM", MOE),
    "qwen2_moe": ("Qwen2MoeForCausalLM", {**MOE, "shared_expert_intermediate_size": 16}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", MOE),
    "olmoe": ("OlmoeForCausalLM", MOE),
    "gpt_oss": (
        "GptOssForCausalLM",
        {
            **MOE,
            "sliding_window": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
    "deepseek_v2": ("DeepseekV2ForCausalLM", {**LATENT, "q_lora_rank": None}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", LATENT),
    "mamba": ("MambaForCausalLM", STATES),
    "mamba2": (
        "Mamba2ForCausalLM",
        {**STATES, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 4},
    ),
    "jamba": (
        "JambaForCausalLM",
        {
            **MOE,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 4,
        },
    ),
    "bamba": ("BambaForCausalLM", {**DECODER, **MAMBA, "attn_layer_indices": [1]}),
    "falcon_h1": ("FalconH1ForCausalLM", {**DECODER, **MAMBA, "mamba_d_ssm": 64}),
    "qwen3_next": (
        "Qwen3NextForCausalLM",
        {
            **MOE,
            "shared_expert_intermediate_size": 16,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": LINEAR,
        },
    ),
    "minimax": ("MiniMaxForCausalLM", {**MOE, "layer_types": LINEAR, "block_size": 4}),
    "lfm2": ("Lfm2ForCausalLM", {**DECODER, "layer_types": ["conv", "full_attention"]}),
    "nllb_moe": (
        "NllbMoeForConditionalGeneration",
        {
            **WIDTHS,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "num_experts": 4,
            "encoder_sparse_step": 2,
            "decoder_sparse_step": 2,
            "max_position_embeddings": 40,
            "decoder_start_token_id": 2,
        },
    ),
    "switch_transformers": (
        "SwitchTransformersForConditionalGeneration",
        {
            **WIDTHS,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_decoder_layers": 2,
            "num_heads": 4,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
            "num_experts": 3,
            "decoder_start_token_id": 0,
        },
    ),
}
QUICK = {"mixtral", "nllb_moe"}
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("libragrad", {}),
    ("libragrad", {"routers": "half"}),
    ("attn_lrp", {}),
    ("lrp_ah_ln", {"activations": "identity"}),
]
IDS = torch.arange(5, 12).unsqueeze(0)


def build(name: str, **changes: Any) -> nn.Module:
    class_name, sizes = FAMILIES[name]
    return tiny_model(class_name, **{**sizes, **changes})()


def inputs_of(model: Any) -> dict[str, Tensor]:
    if model.config.is_encoder_decoder:
        return {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}
    return {"input_ids": IDS}


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FAMILIES]
)
def test_relevance_adds_up(name: str) -> None:
    model = build(name).double()
    inputs = inputs_of(model)
    last = wf.token([*inputs.values()][-1].shape[1] - 1, 3)
    for method, options in METHODS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = wf.explain(inputs, model, method=method, target=last, **options)
        torch.testing.assert_close(
            found.conservation, torch.ones(1, dtype=torch.float64), rtol=0, atol=1e-6
        )


def test_the_products_of_grouped_experts_are_those_of_a_loop() -> None:
    """The implementations that transformers chooses from give the same scores in float32."""
    loop = build("mixtral")
    expected = wf.explain({"input_ids": IDS}, loop, method="libragrad", target=3)
    for implementation in ("grouped_mm", "batched_mm"):
        model = build("mixtral", experts_implementation=implementation)
        found = wf.explain({"input_ids": IDS}, model, method="libragrad", target=3)
        torch.testing.assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["libragrad", "transformer_attribution", "full_lrp", "gae"])
def test_a_mixture_of_one_expert_is_a_dense_model(method: str) -> None:
    """Its router has nothing to choose, so Mistral with the same weights has the same scores."""
    same = {"rms_norm_eps": 1e-6, "rope_parameters": ROPE, "sliding_window": None}
    one = {"num_experts": 1, "num_local_experts": 1, "num_experts_per_tok": 1}
    mixture = build("mixtral", **one, **same).double()
    dense = tiny_model("MistralForCausalLM", **DECODER)(**same).double()
    weights = dict(mixture.state_dict())
    for layer in range(2):
        own, into = f"model.layers.{layer}.mlp.experts.", f"model.layers.{layer}.mlp."
        gate, up = weights.pop(f"{own}gate_up_proj")[0].chunk(2)
        down = weights.pop(f"{own}down_proj")[0]
        del weights[f"model.layers.{layer}.mlp.gate.weight"]
        names = {"gate_proj": gate, "up_proj": up, "down_proj": down}
        weights |= {f"{into}{name}.weight": weight for name, weight in names.items()}
    dense.load_state_dict(weights)
    found, expected = (
        wf.explain({"input_ids": IDS}, model, method=method, target=3) for model in (mixture, dense)
    )
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-6, atol=1e-9)


def test_a_grouped_product_is_linear() -> None:
    random = torch.Generator().manual_seed(0)
    x, weights = torch.randn(1, 4, 8, generator=random), torch.randn(2, 8, 8, generator=random)
    ends = torch.tensor([1, 4], dtype=torch.int32)

    class Experts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.grouped_mm(x[0], weights, offs=ends)[None]

    table = detach_table(attention="detach", norm="detach", activation="identity")
    found, ledger = relevance_under(table, Experts(), x)
    by_expert = torch.cat([x[0, :1] @ weights[0], x[0, 1:] @ weights[1]])
    torch.testing.assert_close(found.sum(), weighted_sum(by_expert[None]).float())
    assert not ledger.leaks  # it has a rule, so nothing had to be measured


# -- the router of Mixtral by hand -----------------------------------------------------------------


def mixture(seed: int) -> MixtralSparseMoeBlock:
    torch.default_generator.manual_seed(seed)
    config = MixtralConfig(
        hidden_size=6,
        intermediate_size=5,
        num_local_experts=4,
        num_experts_per_tok=2,
        experts_implementation="eager",
    )
    block = MixtralSparseMoeBlock(config).double().eval()
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    return block


def relevance_under(table: Mapping[Any, Any], block: nn.Module, x: Tensor) -> tuple[Tensor, Ledger]:
    """Relevance of x for a weighted sum of the block's output, and the ledger."""
    leaf = tags.add_tag(x.clone().requires_grad_(), tags.LEAF)
    ledger = Ledger(batch=len(x))
    ledger.place = Place("text", 0, x.shape[1])
    with Interception(table, ledger, double=True):
        value = weighted_sum(block(leaf.clone()))
    (gradient,) = torch.autograd.grad(value, leaf)
    return x * gradient, ledger


def weighted_sum(output: Tensor) -> Tensor:
    return (output * torch.arange(output.numel()).cos().double().reshape(output.shape)).sum()


def experts_by_hand(block: Any, x: Tensor, share: float) -> Tensor:
    """The output; its gradient gives `share` to the router, the rest to the `up` of its experts."""
    outputs = []
    for token in x.flatten(0, 1):
        weights, chosen = (block.gate.weight @ token).softmax(0).topk(2)
        weights = weights / weights.sum().detach()
        total = torch.zeros_like(token)
        for weight, expert in zip(weights, chosen.tolist(), strict=True):
            gate, up = (block.experts.gate_up_proj[expert] @ token).chunk(2)
            own = block.experts.down_proj[expert] @ (F.silu(gate).detach() * up)
            total = total + (1 - share) * weight.detach() * own + share * weight * own.detach()
        outputs.append(total)
    return torch.stack(outputs).reshape(x.shape)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("routers", "share"), [("constant", 0.0), ("half", 0.5)])
def test_the_router_of_mixtral_by_hand(routers: str, share: float, seed: int) -> None:
    block = mixture(seed)
    x = torch.randn(2, 3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    table = detach_table(
        attention="detach", norm="detach", activation="identity", product="gate", routers=routers
    )
    found, ledger = relevance_under(table, block, x)
    leaf = x.clone().requires_grad_()
    value = weighted_sum(experts_by_hand(block, leaf, share))
    (gradient,) = torch.autograd.grad(value, leaf)
    torch.testing.assert_close(found, x * gradient, rtol=1e-9, atol=1e-9)
    # The block itself computes its softmax in float32.
    torch.testing.assert_close(value, weighted_sum(block(x)), rtol=1e-6, atol=1e-5)
    total = found.sum() + sum(sink.sum() for sink in ledger.sinks.values())
    torch.testing.assert_close(total, value, rtol=1e-9, atol=1e-9)
    assert ("router" in ledger.sinks) == (routers == "half")
    assert not any(leak.abs().max() > 1e-12 for leak in ledger.leaks.values())


def test_sums_of_softmax_weights_are_constants() -> None:
    """The router of NLLB-MoE adds two weights up and divides each by their sum."""

    class Router(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            first, second = torch.eye(4, dtype=x.dtype)[:2]
            weights = x.softmax(-1)
            one, two = (weights * first).sum(-1), (weights * second).sum(-1)
            total = one + two
            gates = (one / total)[..., None] * first + (two / total)[..., None] * second
            return x * gates

    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = detach_table(
        attention="detach", norm="detach", activation="identity", product="uniform"
    )
    found, ledger = relevance_under(table, Router(), x)
    weights = Router()(x) / x
    expected = x * weights * torch.arange(x.numel()).cos().double().reshape(x.shape)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert not any(leak.abs().max() > 1e-12 for leak in ledger.leaks.values())


def test_an_unknown_share_of_routers_is_refused() -> None:
    with pytest.raises(wf.errors.OptionError, match="routers"):
        wf.explain({"input_ids": IDS}, build("mixtral"), method="libragrad", routers="all")
