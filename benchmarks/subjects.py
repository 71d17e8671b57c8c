"""Models with random weights for benchmarks, split where token states enter the first block."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Subject:
    """A model, its inputs, and the way from token states to logits."""

    title: str
    model: Any
    inputs: dict[str, Tensor]
    silent: dict[str, Tensor]  # inputs without content: where integrals start
    read: Callable[[Any, dict[str, Tensor]], Tensor]  # (model, inputs) to states
    decide: Callable[[Any, Tensor], Tensor]  # (model, states) to logits
    last_attention: str  # the module that makes the last attention map
    patches: int = 0  # the first token with a score: the class token of an image has none

    @cached_property
    def eager(self) -> Any:
        """A copy of the model that makes attention maps."""
        model = copy.deepcopy(self.model)
        model.set_attn_implementation("eager")
        return model

    @property
    def heads(self) -> int:
        return int(self.model.config.num_attention_heads)

    def states(self, silent: bool = False) -> Tensor:
        """What enters the first block, (batch, token, hidden)."""
        with torch.no_grad():
            return self.read(self.model, self.silent if silent else self.inputs)

    def logits(self, states: Tensor) -> Tensor:
        """(batch, label)."""
        return self.decide(self.model, states)

    def scores(self, relevance: Tensor) -> Tensor:
        """The scores that a user sees, from relevance by token."""
        return relevance.detach()[:, self.patches :]

    def plain(self) -> None:
        """One forward and one backward pass to the token states."""
        states = self.states().requires_grad_()
        torch.autograd.grad(self.logits(states)[:, 0].sum(), states)


def bert(
    tokens: int = 128, batch: int = 1, layers: int = 12, hidden: int = 768, room: int = 0
) -> Subject:
    """A BERT classifier of base size, with positions for texts of `tokens` tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(**_size(layers, hidden), max_position_embeddings=max(512, tokens, room))
    model = BertForSequenceClassification(config)
    return of_bert(_frozen(model), tokens, batch, "BERT-base" if hidden == 768 else "BERT")


def of_bert(model: Any, tokens: int, batch: int, name: str = "BERT") -> Subject:
    """Return this BERT with random texts."""
    torch.manual_seed(0)
    ids = torch.randint(1000, 30000, (batch, tokens))
    mask = torch.ones_like(ids)
    return Subject(
        f"{name}, {tokens} tokens",
        model,
        {"input_ids": ids, "attention_mask": mask},
        # The config names no mask token, so padding is used.
        {"input_ids": torch.full_like(ids, model.config.pad_token_id), "attention_mask": mask},
        lambda model, inputs: model.bert.embeddings(inputs["input_ids"]),
        lambda model, states: model.classifier(model.bert.pooler(model.bert.encoder(states)[0])),
        f"bert.encoder.layer.{model.config.num_hidden_layers - 1}.attention.self",
    )


def vit(batch: int = 1, layers: int = 12, hidden: int = 768, side: int = 224) -> Subject:
    """A ViT classifier, B/16 by default."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    model = ViTForImageClassification(ViTConfig(**_size(layers, hidden), image_size=side))
    pixels = torch.randn(batch, 3, side, side)

    def decide(model: Any, states: Tensor) -> Tensor:
        for layer in model.vit.layers:
            states = layer(states, None)
        return model.classifier(model.vit.layernorm(states)[:, 0])

    return Subject(
        f"{'ViT-B/16' if hidden == 768 else 'ViT'}, {(side // 16) ** 2 + 1} tokens",
        _frozen(model),
        {"pixel_values": pixels},
        {"pixel_values": torch.zeros_like(pixels)},
        lambda model, inputs: model.vit.embeddings(inputs["pixel_values"]),
        decide,
        f"vit.layers.{layers - 1}.attention",
        patches=1,
    )


def _size(layers: int, hidden: int) -> dict[str, int]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": max(2, hidden // 64),
        "intermediate_size": 4 * hidden,
    }


def _frozen(model: nn.Module) -> nn.Module:
    return model.eval().requires_grad_(False)
