"""Uniform random scores: the baseline that every method has to beat."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.methods.method import method


@method(
    "random",
    title="Uniform random scores, the same for the same input and seed",
    paper="baseline of all three papers",
    promises=("nonnegative",),
)
def random(capture: Capture, *, seed: int = 0) -> Tensor:
    """Scores in [0, 1) for every real token, (batch, tokens).

    Each sample has a generator of its own, seeded by its content, so that neither the batch it
    comes in nor its padding changes a number.
    """
    capture.output_only()
    scores = torch.zeros(capture.prepared.batch, capture.tokens)
    for i, content in enumerate(capture.prepared.content):
        digest = hashlib.sha256(f"{seed}:".encode() + content).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        real = capture.mask[i].cpu()
        scores[i, real] = torch.rand(int(real.sum()), generator=generator)
    return scores
