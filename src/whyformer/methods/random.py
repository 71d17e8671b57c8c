"""Uniform random scores: the baseline that every method has to beat."""

from __future__ import annotations

import hashlib

import torch

from whyformer.engine.passes.forward_only import forward_only
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.methods.method import method


@method(
    "random",
    title="Uniform random scores, the same for the same input and seed",
    paper="baseline of all three papers",
    signed=False,
)
def random(run: Run, *, seed: int = 0) -> MethodResult:
    """Scores in [0, 1) for every real token.

    Each sample has its own generator, seeded by its content, so that neither the other samples
    of the batch nor padding change a number.
    """
    forward = forward_only(run)
    masks = forward.layout.masks
    scores = {name: torch.zeros(mask.shape) for name, mask in masks.items()}
    contents = zip(*(one.content for one in run.batch), strict=True)
    for i, content in enumerate(contents):
        digest = hashlib.sha256(f"{seed}:".encode() + b"".join(content)).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        for name, mask in masks.items():
            real = mask[i].cpu()
            scores[name][i, real] = torch.rand(int(real.sum()), generator=generator)
    return MethodResult(forward, scores)
