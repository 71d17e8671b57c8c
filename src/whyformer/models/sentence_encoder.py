"""Sentence models (sentence-transformers): the model as a module that takes token ids."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakValueDictionary

from torch import Tensor, nn

from whyformer.errors import ModelError
from whyformer.models.fork_safe import fork_safe

_encoders: WeakValueDictionary[int, SentenceEncoder] = WeakValueDictionary()
_lock = fork_safe(threading.Lock())


class SentenceEncoder(nn.Module):
    """A sentence model with a forward of token ids; it returns the model's own features.

    Everything else (config, embeddings, base model) is that of the transformer inside.
    """

    def __init__(self, sentence_model: nn.Module) -> None:
        """Hold the sentence model; nothing is copied."""
        super().__init__()
        self.sentence_model = sentence_model
        self.training = sentence_model.training

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of this module, or of the transformer inside."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(_transformer(self._modules["sentence_model"]), name)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the features, `sentence_embedding` (batch, hidden) among them."""
        given = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
        }
        features = self.sentence_model({k: v for k, v in given.items() if v is not None})
        return {k: v for k, v in features.items() if k not in given and isinstance(v, Tensor)}

    def similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the similarity (batch,) of embeddings (batch, hidden), as the model defines it."""
        found: Tensor = self.sentence_model.similarity_pairwise(left, right)  # type: ignore[operator]
        return found


def sentence_encoder(model: Any) -> tuple[SentenceEncoder, Any]:
    """Return the encoder of a sentence model and its tokenizer; one encoder while it is in use.

    Raise ModelError if the model does not read token ids with a transformer.
    """
    if not isinstance(_transformer(model), nn.Module):
        raise ModelError(
            f"the first module of this {type(model).__name__} is a"
            f" {type(next(iter(model.children()))).__name__}, not one transformer",
            argument="model",
            remedy="Pass the nn.Module that reads the tokens, with a target for its output",
        )
    prompt = getattr(model, "default_prompt_name", None)
    if prompt is not None:
        raise ModelError(
            f"this {type(model).__name__} puts its prompt {prompt!r} before every text",
            argument="model",
            remedy=f"Set model.default_prompt_name = None and put model.prompts[{prompt!r}] before"
            " your texts",
        )
    with _lock:
        encoder = _encoders.get(id(model))
        if encoder is None:
            encoder = _encoders[id(model)] = SentenceEncoder(model)
    return encoder, model.tokenizer


def find_cross_encoder(model: Any) -> tuple[nn.Module, Any]:
    """Return the classifier inside a cross-encoder, and its tokenizer."""
    parts = list(model.children())
    # Until version 5 of the package the classifier was the only child itself.
    if len(parts) != 1 or not isinstance(model.model, nn.Module):
        raise ModelError(
            f"this {type(model).__name__} is a chain of {len(parts)} modules, not one classifier",
            argument="model",
            remedy="Pass the nn.Module that reads the tokens, with a target for its output",
        )
    return model.model, model.tokenizer


def _transformer(model: nn.Module | None) -> Any:
    """The transformers model in a sentence model, None if there is none."""
    assert model is not None
    first = next(iter(model.children()), None)
    return getattr(first, "auto_model", None)
