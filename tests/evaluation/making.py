"""A tiny random classifier of words, and sentences for it; nothing is downloaded or trained."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.wordpiece import wordpiece_of
from whyformer.datasets import Sample
from whyformer.evaluation.plan import Plan, method_specs, metric_specs
from whyformer.models.families.tiny import ENCODER, tiny_model
from whyformer.models.load import Loaded

SIGNS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["a", "good", "bad", "film", "plot", "the", "is", "not", "and", "un", "do", "n", "t"]
PIECES = ["##ping", "##able", "grip", ".", ",", "'", "!"]
VOCABULARY = [*SIGNS, *WORDS, *PIECES]


@cache
def tokenizer() -> Any:
    """A WordPiece tokenizer of twenty pieces with [CLS] and [SEP]."""
    return wordpiece_of(VOCABULARY)


def classifier(names: Sequence[str] = ("negative", "positive"), **changes: Any) -> Loaded:
    """A random BERT of two layers with that tokenizer."""
    sizes = {**ENCODER, "vocab_size": len(VOCABULARY)} | changes
    sizes.pop("num_labels")
    module = tiny_model("BertForSequenceClassification", **sizes)(id2label=dict(enumerate(names)))
    return Loaded(module, tokenizer(), "tiny")


def sentences(count: int, seed: int = 0, label: bool = True) -> list[Sample]:
    """Sentences of two to nine words, chosen at random."""
    generator = random.Random(seed)
    found = []
    for i in range(count):
        text = " ".join(generator.choice(WORDS) for _ in range(generator.randint(2, 9)))
        found.append(Sample(f"dev/{i}", text, generator.randint(0, 1) if label else None))
    return found


def plan(
    methods: Sequence[str] = ("random", "gae"),
    metrics: Sequence[str] = ("auac",),
    targets: tuple[str, ...] = ("predicted",),
    **more: Any,
) -> Plan:
    """A plan from names, as the command line makes it."""
    options = more.pop("options", {})
    metric_options = {name: options[name] for name in options if name in metrics}
    rest = {name: options[name] for name in options if name not in metrics}
    fill, seed = more.pop("fill", None), more.pop("seed", 0)
    return Plan(
        method_specs(methods, rest, seed),
        metric_specs(metrics, metric_options, fill),
        targets,
        fill,
        seed,
        **more,
    )


def shortened(loaded: Loaded, ids: Tensor, kept: Tensor) -> Tensor:
    """Logits of one text with only its kept tokens, computed directly."""
    with torch.no_grad():
        logits: Tensor = loaded.module(ids[kept].unsqueeze(0)).logits
    return logits[0]


def save(loaded: Loaded, folder: Path) -> Path:
    """Save the model and its tokenizer in the folder, and return the folder."""
    module: Any = loaded.module
    processor: Any = loaded.processor
    module.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
