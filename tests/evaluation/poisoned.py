"""A model that harms the process on certain inputs, for tests of failures."""

from __future__ import annotations

import os
from typing import Any

from torch import Tensor, nn

from tests.evaluation.making import classifier, sentences, tokenizer
from whyformer.models.load import Loaded


class PoisonedEmbedding(nn.Embedding):
    """Ends its process on one sentence, and raises on another."""

    dies: list[int]
    breaks: list[int]

    def forward(self, input: Tensor) -> Tensor:
        rows = input.tolist()
        if self.dies in rows:
            os._exit(9)
        if self.breaks in rows:
            raise RuntimeError("poisoned")
        return super().forward(input)


def poisoned_classifier(dies: str, breaks: str) -> Loaded:
    """Return a classifier that the named samples of `sentences` harm."""
    texts = {sample.id: sample.inputs for sample in sentences(60)}
    loaded = classifier()
    module: Any = loaded.module
    known = module.bert.embeddings.word_embeddings
    known.__class__ = PoisonedEmbedding
    known.dies, known.breaks = (tokenizer()(texts[name])["input_ids"] for name in (dies, breaks))
    return loaded
