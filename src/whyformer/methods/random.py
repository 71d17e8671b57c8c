"""Uniform random scores: the baseline that every method has to beat."""

from __future__ import annotations

import hashlib

import torch

from whyformer.engine.capture import Capture, Scores
from whyformer.methods.method import method


@method(
    "random",
    title="Uniform random scores, the same for the same input and seed",
    paper="baseline of all three papers",
    promises=("nonnegative",),
)
def random(capture: Capture, *, seed: int = 0) -> Scores:
    """Scores in [0, 1) for every real token.

    Each sample has a generator of its own, seeded by its content, so that neither the batch it
    comes in nor its padding changes a number.
    """
    capture.output_only()
    scores = {name: torch.zeros(mask.shape) for name, mask in capture.masks.items()}
    contents = zip(*(one.content for one in capture.prepared), strict=True)
    for i, content in enumerate(contents):
        digest = hashlib.sha256(f"{seed}:".encode() + b"".join(content)).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        for name, mask in capture.masks.items():
            real = mask[i].cpu()
            scores[name][i, real] = torch.rand(int(real.sum()), generator=generator)
    return scores
