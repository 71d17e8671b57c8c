"""Initial weights of a small Llama that looks up answers in what it has read.

With random weights, a small language model needs thousands of steps until it finds what a question
is about. Here the hidden coordinates are divided at the start: names of tokens, content words, the
content words that were read shortly before, and those that were looked up. The first layers look a
few tokens back; the last ones look up tokens whose content is that of the question. All weights are
trained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

HIDDEN, WIDTH = 128, 32  # coordinates of a state, and of a head
CONSTANT = 0  # the coordinate that is the same for all tokens
NAME = slice(1, 32)  # which token it is
CONTENT = slice(32, 64)  # which content word it is; 0 for all other tokens
READ = slice(64, 96)  # the content words a few tokens back
FOUND = slice(96, 128)  # the content words that were looked up
HEADS = HIDDEN // WIDTH
BASE = 1e6  # of the rotary frequencies: half of them hardly turn within a text
FAST, SLOW = range(3), range(6, WIDTH // 2)  # rotary pairs that tell tokens apart, and that do not
SPREAD = 0.03  # standard deviation of all other weights


@torch.no_grad()
def set_words(words: nn.Embedding, head: nn.Linear, content: Sequence[int]) -> None:
    """Set the embeddings, and let the head write the content words that were looked up."""
    count = len(words.weight)
    nn.init.zeros_(words.weight)
    # Large, so that it stays almost the same after normalisation.
    words.weight[:, CONSTANT] = 4.0
    words.weight[:, NAME] = random_names(count)
    words.weight[content, CONTENT] = random_names(len(content), WIDTH)
    nn.init.normal_(head.weight, std=SPREAD)
    head.weight[content, FOUND] += words.weight[content, CONTENT]


def random_names(count: int, width: int = WIDTH - 1) -> Tensor:
    """Return random vectors (count, width) of unit length."""
    return nn.functional.normalize(torch.randn(count, width), dim=1)


@torch.no_grad()
def look_back(attention: Any, distances: Sequence[int], gain: float) -> None:
    """Let each head read the content of the token that is a fixed distance back.

    Args:
        attention: The attention of a Llama layer.
        distances: How far each head looks back, in tokens.
        gain: How sharply it attends.
    """
    for head, distance in enumerate(distances):
        first = head * WIDTH
        for pair in FAST:
            turn = distance * BASE ** (-2 * pair / WIDTH)
            other = first + pair + WIDTH // 2
            attention.k_proj.weight[first + pair, CONSTANT] = gain
            attention.q_proj.weight[first + pair, CONSTANT] = gain * math.cos(turn)
            attention.q_proj.weight[other, CONSTANT] = -gain * math.sin(turn)
        _copy(attention, head, CONTENT, READ, 0.4)


@torch.no_grad()
def look_up(attention: Any, keys: slice, name: Tensor, gain: float) -> None:
    """Let all heads look up tokens that have, among `keys`, the content words read before.

    Args:
        attention: The attention of a Llama layer.
        keys: The coordinates of the keys to compare with; they are also what is copied.
        name: The name (width,) of the token to prefer.
        gain: How sharply it attends.
    """
    rows = [*SLOW, *(pair + WIDTH // 2 for pair in SLOW)]
    preferred = rows.pop()
    for head in range(HEADS):
        first = head * WIDTH
        some = torch.linalg.qr(torch.randn(WIDTH, len(rows)))[0].T
        for row, weights in zip(rows, some, strict=True):
            attention.q_proj.weight[first + row, READ] = gain * weights
            attention.k_proj.weight[first + row, keys] = gain * weights
        attention.q_proj.weight[first + preferred, CONSTANT] = 4.0
        attention.k_proj.weight[first + preferred, NAME] = name
        _copy(attention, head, keys, FOUND, 0.2)


def _copy(attention: Any, head: int, source: slice, target: slice, gain: float) -> None:
    """Let one head write what it reads."""
    rows = slice(head * WIDTH, (head + 1) * WIDTH)
    attention.v_proj.weight[rows, source] += torch.eye(WIDTH)
    attention.o_proj.weight[target, rows] += gain * torch.eye(WIDTH)
