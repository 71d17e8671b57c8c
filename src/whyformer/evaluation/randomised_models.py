"""Copies of a model with weights shuffled from the top down (Adebayo et al., NeurIPS 2018)."""

from __future__ import annotations

import copy

import torch
from torch import nn

from whyformer.engine.stacks import find_stacks
from whyformer.models.families import family_of

LEVELS = 3


def randomise_weights(
    module: nn.Module, stream: str, seed: int, levels: int = LEVELS
) -> list[nn.Module]:
    """Copies of the model, each with more blocks shuffled, starting with the head and top blocks.

    Each weight keeps its values in another order, so that norms and scales do not change. In the
    last copy all blocks are shuffled. Embeddings are never shuffled.
    """
    copies = []
    for level in range(1, levels + 1):
        changed = copy.deepcopy(module)
        generator = torch.Generator().manual_seed(seed)
        tracks = find_stacks(changed, stream, family_of(changed)).tracks.values()
        below: list[nn.Module] = []  # blocks that are not shuffled
        blocks = [block for track in tracks for block in track.chain]
        for track in tracks:
            stay = len(track.chain) - -(-len(track.chain) * level // levels)
            below += track.chain[:stay]
        untouched = {id(p) for block in below for p in block.parameters()}
        first = {id(p) for block in blocks for p in block.parameters()}
        seen = False
        for parameter in changed.parameters():
            # Parameters before the first block are embeddings, those after the blocks are heads.
            seen = seen or id(parameter) in first
            if not seen or id(parameter) in untouched or parameter.numel() < 2:
                continue
            order = torch.randperm(parameter.numel(), generator=generator)
            flat = parameter.detach().flatten()[order.to(parameter.device)]
            parameter.data = flat.reshape(parameter.shape)
        copies.append(changed)
    return copies
