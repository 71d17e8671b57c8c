"""What a module's forward takes, and the config of its text part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import transformers
from torch import nn

from whyformer.models.signature import config_of

BERT = transformers.BertConfig()
CONFIGS: dict[str, Any] = {
    "bert": BERT,
    "t5": transformers.T5Config(),
    "gpt2": transformers.GPT2Config(),
    "vit": transformers.ViTConfig(),
    "clip": transformers.CLIPConfig(),
    "llava": transformers.LlavaConfig(),
    "qwen2_vl": transformers.Qwen2VLConfig(),
    "encoder_decoder": transformers.EncoderDecoderConfig(
        encoder=BERT.to_dict(), decoder=BERT.to_dict()
    ),
    # It declares no configs inside, and has one.
    "rag": transformers.RagConfig(
        question_encoder=BERT.to_dict(), generator=transformers.BartConfig().to_dict()
    ),
}


class WithConfig(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config


@pytest.mark.parametrize("name", CONFIGS)
def test_the_config_of_the_text_is_what_transformers_says(name: str) -> None:
    config = CONFIGS[name]
    try:
        expected = config.get_text_config()
    except ValueError as ambiguous:
        with pytest.raises(ValueError, match=str(ambiguous)[:30]):
            config_of(WithConfig(config))
        return
    assert config_of(WithConfig(config)) is expected


def test_a_text_config_that_was_added_by_hand_counts() -> None:
    config = transformers.BertConfig()
    config.text_config = transformers.GPT2Config()
    assert config_of(WithConfig(config)) is config.text_config


def test_configs_of_other_libraries() -> None:
    assert config_of(nn.Linear(1, 1)) is None
    assert config_of(WithConfig(None)) is None
    assert config_of(WithConfig({"model_type": "dictionary"})) is None
    assert config_of(WithConfig(SimpleNamespace(hidden=3))) is None
    own = SimpleNamespace(model_type="own")
    assert config_of(WithConfig(own)) is own
