"""Structures of transformers models that were silently wrong: two maps, hybrids, lists of parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AttentionInterface

import whyformer as wf
from whyformer.engine.block_search import search_blocks
from whyformer.errors import TrustWarning
from whyformer.models.families.tiny import tiny_model

IDS = torch.arange(5, 12).unsqueeze(0)
TEXT = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8}
XLM = {"vocab_size": 60, "emb_dim": 32, "n_layers": 3, "n_heads": 4, "num_labels": 3}
HYBRIDS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "Lfm2ForCausalLM": (
        {**TEXT, "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]},
        (0, 2),
    ),
    "FalconH1ForCausalLM": (
        {**TEXT, **MAMBA, "num_hidden_layers": 2, "mamba_d_ssm": 64, "mamba_chunk_size": 8},
        (0, 1),
    ),
    "BambaForCausalLM": (
        {**TEXT, **MAMBA, "num_hidden_layers": 2, "attn_layer_indices": [1], "mamba_chunk_size": 8},
        (0,),
    ),
}


def build(name: str, **settings: Any) -> nn.Module:
    return tiny_model(name, **settings)().double().eval()


def test_the_two_maps_of_diffllama_are_one_layer() -> None:
    """GAE from maps that the model's own attention function keeps, two per layer."""
    model = build("DiffLlamaForCausalLM", **TEXT, num_hidden_layers=3)
    maps: list[Tensor] = []

    def keep(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **_: Any) -> Any:
        groups = query.shape[1] // key.shape[1]
        key = key.repeat_interleave(groups, 1)
        value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
        later = torch.ones(query.shape[-2], query.shape[-2], dtype=torch.bool).triu(1)
        scores = (query @ key.transpose(-2, -1) * module.scaling).masked_fill(later, -torch.inf)
        attention = scores.softmax(-1)
        attention.retain_grad()
        maps.append(attention)
        return (attention @ value).transpose(1, 2), attention

    found = wf.explain({"input_ids": IDS}, model, method="gae", target=3, keep=("attention",))
    AttentionInterface.register("keeps_maps", keep)
    try:
        model.set_attn_implementation("keeps_maps")  # type: ignore[operator]
        model(IDS).logits[0, -1, 3].backward()
    finally:
        AttentionInterface._global_mapping.pop("keeps_maps")
    assert len(maps) == 6
    assert len(found.layers) == 3
    relevance = torch.eye(IDS.shape[1], dtype=torch.float64)[-1:]
    for first, second in reversed(list(zip(maps[::2], maps[1::2], strict=True))):
        heads = torch.cat([first * first.grad, second * second.grad], dim=1)  # type: ignore[operator]
        relevance = relevance + relevance @ heads.clamp(min=0).mean(1)[0].detach()
    # The model itself casts to float32 inside its norms.
    torch.testing.assert_close(found.scores, relevance, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", HYBRIDS)
def test_layers_of_hybrids_that_no_map_shows_are_named(name: str) -> None:
    settings, mixing = HYBRIDS[name]
    model = build(name, **settings)
    with pytest.warns(TrustWarning, match=f"attention maps do not show all of {name}"):
        a = wf.explain({"input_ids": IDS}, model, method="gae", target=3)
    (reason,) = a.trust.warnings
    assert reason.kind == "layers"
    assert reason.culprits == tuple(f"model.layers.{i}" for i in mixing)


@pytest.mark.parametrize(
    ("name", "settings", "first"),
    [
        ("XLMForSequenceClassification", {}, "attentions"),
        ("FlaubertForSequenceClassification", {}, "attentions"),
    ],
)
def test_the_blocks_of_xlm_contain_its_attentions(
    name: str, settings: dict[str, Any], first: str
) -> None:
    model = build(name, **XLM, max_position_embeddings=64, **settings)
    chain = search_blocks(model, {"input_ids": IDS}, 1)
    assert chain is not None
    assert chain.blocks == tuple(f"transformer.{first}.{i}" for i in range(3))
    a = wf.explain({"input_ids": IDS}, model, method="libragrad", target=1)
    torch.testing.assert_close(
        a.conservation, torch.ones(1, dtype=torch.float64), rtol=0, atol=1e-8
    )
