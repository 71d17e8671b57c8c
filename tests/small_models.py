"""Tiny tokenizers of every kind and tiny random models, made here: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn

from tests.wordpiece import wordpiece_of
from whyformer.models.quiet import quiet_loading

CORPUS = [
    "a gripping, beautifully acted film.",
    "the acting is unforgettable; the plot isn't.",
    "naïve café 漢字 😀",
    "what a film! a film a film gripping gripping unforgettable",
]
SMALL = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
WORDPIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "grip",
    "##ping",
    "film",
    ".",
    ",",
    "the",
    "act",
    "##ing",
    "is",
    "##n",
    "'",
    "t",
    "plot",
    "good",
    "bad",
    "un",
    "##forget",
    "##table",
    "!",
]


@pytest.fixture
def wordpiece() -> Any:
    """A BERT-like tokenizer: WordPiece with [CLS] and [SEP]."""
    return wordpiece_of(WORDPIECES)


@pytest.fixture
def byte_bpe() -> Any:
    """A GPT-2-like tokenizer: byte-level BPE whose only special token ends a text."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|endoftext|>", unk_token="<|endoftext|>"
    )


@pytest.fixture
def sentencepiece() -> Any:
    """An ALBERT-like tokenizer: Unigram pieces with a sign for the space before a word."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=60,
        special_tokens=["<unk>", "<s>", "</s>", "<pad>"],
        unk_token="<unk>",
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )


@pytest.fixture
def build() -> Callable[..., nn.Module]:
    """A small random model of any transformers class, in evaluation mode."""

    def built(name: str, **settings: Any) -> nn.Module:
        torch.manual_seed(0)
        with quiet_loading():  # importing DeBERTa warns about torch.jit
            architecture = getattr(transformers, name)
        config = architecture.config_class(**{**SMALL, **settings})
        module: nn.Module = architecture(config).eval()
        return module

    return built


@pytest.fixture
def bert(build: Callable[..., nn.Module]) -> nn.Module:
    """A BERT classifier of two classes, called negative and positive."""
    return build("BertForSequenceClassification", id2label={0: "negative", 1: "Positive"})


@pytest.fixture
def gpt2(build: Callable[..., nn.Module]) -> nn.Module:
    """A GPT-2 language model for the byte-level tokenizer."""
    return build("GPT2LMHeadModel", vocab_size=320, bos_token_id=0, eos_token_id=0)


@pytest.fixture
def vit() -> nn.Module:
    """A ViT of three classes on 8 x 8 colour images cut into four patches."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=3,
    )
    module: nn.Module = transformers.ViTForImageClassification(config).eval()
    return module


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A PNG of 10 x 6 pixels, red on the left and blue on the right."""
    image = Image.new("RGB", (10, 6), (255, 0, 0))
    image.paste((0, 0, 255), (5, 0, 10, 6))
    image.save(tmp_path / "picture.png")
    return tmp_path / "picture.png"
