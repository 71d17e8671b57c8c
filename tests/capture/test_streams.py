"""Models with two token streams are refused: a map of one of them would look complete."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import whyformer as wf
from whyformer.errors import ModelError
from whyformer.families import families
from whyformer.families.tiny import tiny_inputs, tiny_model

IDS = torch.arange(5, 11).unsqueeze(0)
SMALL = {"vocab_size": 60, "num_layers": 2, "num_heads": 4, "d_model": 32, "d_kv": 8, "d_ff": 48}
BART = {
    "vocab_size": 60,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
LXMERT = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "l_layers": 1,
    "r_layers": 1,
    "x_layers": 1,
    "visual_feat_dim": 8,
    "num_qa_labels": 3,
}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", SMALL, {"decoder_input_ids": IDS[:, :3]}),
    "bart": ("BartForSequenceClassification", {**BART, "eos_token_id": 10}, {}),
    "lxmert": (
        "LxmertForQuestionAnswering",
        LXMERT,
        {"visual_feats": torch.randn(1, 4, 8), "visual_pos": torch.rand(1, 4, 4)},
    ),
}


@pytest.mark.parametrize("method", ["lrp_ah_ln", "gae", "transformer_attribution"])
@pytest.mark.parametrize("name", list(CASES))
def test_two_streams_are_refused(name: str, method: str) -> None:
    class_name, sizes, more = CASES[name]
    model = tiny_model(class_name, **sizes)()
    with pytest.raises(ModelError, match="two token streams"):
        wf.explain({"input_ids": IDS, **more}, model, method=method)


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.transformer = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.embedding(ids)
        return self.head(self.transformer(states, states)[:, 0])


def test_so_is_an_encoder_decoder_of_torch() -> None:
    with pytest.raises(ModelError, match="encoder and a decoder"):
        wf.explain(IDS, Translator())


def test_an_encoder_alone_is_explained() -> None:
    encoder = tiny_model("T5EncoderModel", **SMALL)()
    a = wf.explain({"input_ids": IDS}, encoder, target=lambda output: output[0][:, 0, 0])
    assert a.scores.shape == IDS.shape


class Twice(nn.Module):
    """Adds a token of its own that the caller does not know of."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = families["bert"].tiny()
        self.config = self.inner.config

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.inner(torch.cat([input_ids[:, :1], input_ids], dim=1)).logits


def test_tokens_that_the_input_does_not_have_are_refused() -> None:
    with pytest.raises(ModelError, match=r"7 token states enter .* the input has 6 tokens"):
        wf.explain({"input_ids": IDS}, Twice())


def test_extra_tokens_beside_patches_are_refused() -> None:
    """As a detector on a vision transformer has them: behind the patches, not before."""
    model = tiny_model(
        "YolosForObjectDetection",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=[12, 12],
        patch_size=4,
        num_detection_tokens=5,
    )()
    pixels = {"pixel_values": torch.randn(1, 3, 12, 12)}
    with pytest.raises(ModelError, match="cannot tell which states are patches"):
        wf.explain(pixels, model, target=wf.query(0))


@pytest.mark.parametrize("method", ["gae", "rollout", "transformer_attribution"])
def test_maps_of_a_model_that_merges_tokens_do_not_chain(method: str) -> None:
    model = tiny_model(
        "SwinForImageClassification",
        image_size=16,
        patch_size=2,
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    )()
    pixels = {"pixel_values": torch.randn(1, 3, 16, 16)}
    with pytest.raises(ModelError, match="merges tokens"):
        wf.explain(pixels, model, method=method)
    assert wf.explain(pixels, model).scores.shape == (1, 64)


def test_the_families_still_have_one_stream() -> None:
    for family in families.values():
        model = family.tiny()
        assert wf.explain(tiny_inputs(model), model, method="random").scores.shape[0] == 2
