"""A tiny classifier that learnt to look for one word, so that good methods are known."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import torch

from tests.evaluation.making import classifier
from whyformer.models.load import Loaded

OTHERS = ("a", "film", "plot", "the", "is", "and", "un", "do")


def reviews(count: int, seed: int = 0) -> list[str]:
    """Texts of eight words, of which one is "good" or "bad"."""
    generator = random.Random(seed)
    found = []
    for i in range(count):
        words = [generator.choice(OTHERS) for _ in range(8)]
        words[generator.randrange(8)] = ("bad", "good")[i % 2]
        found.append(" ".join(words))
    return found


@cache
def trained() -> Loaded:
    """A two-layer BERT that tells "good" from "bad"; other words hardly matter."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        loaded = classifier()
        module: Any = loaded.module
        processor: Any = loaded.processor
        texts = reviews(64, seed=1)
        inputs = processor(texts, return_tensors="pt", padding=True)
        labels = torch.tensor([i % 2 for i in range(64)])
        optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
        module.train()
        for _ in range(120):
            loss = torch.nn.functional.cross_entropy(module(**inputs).logits, labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        module.eval()
        assert float(loss.detach()) < 0.05
    return loaded
