"""A tiny classifier with a tokenizer of a few pieces."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

from tests.wordpiece import wordpiece_of

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NAMES = ("ann", "##a", "bo", "##b", "cy", "mary", "##lee")
WORDS = ("the", "film", "by", "is", "was", "good", "bad", "dull", "and", "i", "saw", "it", "not")
PIECES = (*SPECIAL, *NAMES, *WORDS, "with", "'", "s", ".", ",", "!")


def wordpiece() -> Any:
    """A BERT-like tokenizer: lower case, WordPiece, [CLS] and [SEP]."""
    return wordpiece_of(PIECES, lower=True)


def classifier(**changes: Any) -> nn.Module:
    """A small random BERT with two classes."""
    config = transformers.BertConfig(
        **{
            "vocab_size": len(PIECES),
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 24,
            "max_position_embeddings": 24,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "initializer_range": 0.4,
            "id2label": {0: "negative", 1: "positive"},
            "label2id": {"negative": 0, "positive": 1},
            "pad_token_id": 0,
            **changes,
        }
    )
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(config).eval()
