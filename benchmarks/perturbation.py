"""Remove tokens from the inputs of a model by relevance (Chefer et al., ICCV 2021, 4.1).

A removed token is deleted: the model is called without it. Masking would be the same, except when
all tokens are masked: attention is then uniform over all tokens. In the last step no region is
left, and the model gets one region of zeros, the same for every method.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# The removed fractions, as in the authors' LXMERT script.
FRACTIONS = (0.0, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
NAMES = {
    "text": ("input_ids", "attention_mask", "token_type_ids"),
    "image": ("visual_feats", "visual_pos", "visual_embeds"),
}
WAYS = (("image", "positive"), ("image", "negative"), ("text", "positive"), ("text", "negative"))

Inputs = dict[str, Tensor]
Predict = Callable[[Inputs], Tensor]  # the index of the answer to each question


def order(scores: Tensor, seed: int = 0) -> Tensor:
    """Which tokens come first, (batch, tokens): highest score first, equal ones in random order."""
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.rand(scores.shape, generator=generator).argsort(1)
    ranked = scores.gather(1, shuffled).argsort(dim=1, descending=True, stable=True)
    return shuffled.gather(1, ranked)


def kept(scores: Tensor, removable: Tensor, fraction: float, way: str, seed: int = 0) -> Tensor:
    """Which tokens are left, (batch, tokens), after removing this fraction of the removable ones.

    "positive" removes the most relevant ones first, "negative" the least relevant. As in the
    authors' script, what is left is rounded down.
    """
    place = order(scores.masked_fill(~removable, -torch.inf), seed).argsort(1)
    count = removable.sum(1, keepdim=True)
    # A share such as (1 - 0.9) * 10 is a little less than 1 in floating point.
    left = ((1 - fraction) * count + 1e-6).floor()
    stay = place >= count - left if way == "positive" else place < left
    return stay | ~removable


def without(inputs: Inputs, stay: Tensor, names: tuple[str, ...]) -> Inputs:
    """The inputs with only the remaining tokens, moved to the front; padding has mask 0.

    If none is left, one of zeros is used: LXMERT cannot be called without a region.
    """
    longest = max(1, int(stay.sum(1).max()))
    index = (~stay).int().argsort(dim=1, stable=True)[:, :longest]
    cut = dict(inputs)
    for name in names:
        if name in inputs:
            value = inputs[name]
            wide = index.reshape(*index.shape, *[1] * (value.ndim - 2))
            left = value.gather(1, wide.expand(*index.shape, *value.shape[2:]))
            cut[name] = left if stay.any() else torch.zeros_like(left)
    if "attention_mask" in names:
        cut["attention_mask"] = cut["attention_mask"] * stay.gather(1, index)
    return cut


class Answers:
    """A model's answers to questions with tokens removed; each is computed once.

    Short questions have few subsets of tokens, and most methods need the same ones.
    """

    def __init__(self, predict: Predict, inputs: Inputs) -> None:
        self._predict = predict
        self._inputs = inputs
        self._known: dict[tuple[str, int, bytes], int] = {}

    def __call__(self, stream: str, stay: Tensor) -> Tensor:
        """The answers, (questions,), with only those tokens of that stream."""
        keys = [(stream, i, row.numpy().tobytes()) for i, row in enumerate(stay)]
        new = [i for i, key in enumerate(keys) if key not in self._known]
        if new:
            part = {name: value[new] for name, value in self._inputs.items()}
            found = self._predict(without(part, stay[new], NAMES[stream])).tolist()
            self._known.update(zip((keys[i] for i in new), found, strict=True))
        return torch.tensor([self._known[key] for key in keys])

    def curve(
        self, stream: str, way: str, scores: Tensor, removable: Tensor, seed: int = 0
    ) -> Tensor:
        """The answers at every fraction, (fractions, questions)."""
        stays = (kept(scores, removable, fraction, way, seed) for fraction in FRACTIONS)
        return torch.stack([self(stream, stay) for stay in stays])


def area(right: Tensor) -> Tensor:
    """The area under each question's curve, (questions,), by trapezoids over the fractions."""
    return torch.trapezoid(right.double(), torch.tensor(FRACTIONS).double(), dim=0)
