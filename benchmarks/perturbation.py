"""Tokens taken away from a question-answering model by relevance (Chefer et al., ICCV 2021, 4.1).

Taken away means gone: the model is called without the token, as if it had never been there. Masking
would say the same, but not once everything is masked: attention then looks at all tokens alike.
Without any region, the last step, the model sees one of zeros: the same for every method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

# The shares that are taken away, as the authors' LXMERT script has them.
FRACTIONS = (0.0, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
TEXT = ("input_ids", "attention_mask", "token_type_ids")
IMAGE = ("visual_feats", "visual_pos", "visual_embeds")
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
    """Which tokens are left, (batch, tokens), once that fraction of the removable ones is gone.

    "positive" takes away the most relevant ones first, "negative" the least relevant. As in the
    authors' script, what is left is rounded down.
    """
    place = order(scores.masked_fill(~removable, -torch.inf), seed).argsort(1)
    count = removable.sum(1, keepdim=True)
    # A share such as (1 - 0.9) * 10 is a little less than 1 in floating point.
    left = ((1 - fraction) * count + 1e-6).floor()
    stay = place >= count - left if way == "positive" else place < left
    return stay | ~removable


def without(inputs: Inputs, stay: Tensor, names: tuple[str, ...]) -> Inputs:
    """The inputs with only the tokens that stay, closed up; padding behind has mask 0.

    Where none stays there is one of zeros: the code of LXMERT cannot be called with no region.
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


def curves(
    predict: Predict, inputs: Inputs, scores: dict[str, Tensor], removable: Tensor, seed: int
) -> Iterator[tuple[tuple[str, str], Tensor]]:
    """Each stream and way with its answers, (fractions, questions).

    Only words can be removed from the text that are `removable`; of the image, every region.
    """
    for stream, way in WAYS:
        names = TEXT if stream == "text" else IMAGE
        out = removable if stream == "text" else torch.ones_like(scores["image"], dtype=torch.bool)
        answers = [
            predict(without(inputs, kept(scores[stream], out, fraction, way, seed), names))
            for fraction in FRACTIONS
        ]
        yield (stream, way), torch.stack(answers)


def area(right: Tensor) -> Tensor:
    """The area under each question's curve, (questions,), by trapezoids over the fractions."""
    return torch.trapezoid(right.double(), torch.tensor(FRACTIONS).double(), dim=0)
