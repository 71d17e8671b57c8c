"""Token-F1 of the top-k words against a person's (DeYoung et al., ACL 2020, sec. 4.1)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.errors import InputError, OptionError
from whyformer.metrics.eraser import PAPER
from whyformer.metrics.metric import metric
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import (
    find_stream,
    finite_scores,
    number_list,
    rank_tokens,
    removable,
)
from whyformer.metrics.words import Pool, word_index, word_scores

TOP = (10, 20, 30, 40, 50, 60, 70, 80)


@metric(
    "token_f1",
    title="Token-F1: are the top words those that a person marked?",
    paper=PAPER,
    better="higher",
    range=(0.0, 1.0),
    convention="F1 per document of the top k = 10, 20, ... 80 words, mean over k.",
)
def token_f1(
    attribution: Attribution,
    rationales: Tensor,
    keep: Tensor | None = None,
    *,
    stream: str | None = None,
    k: tuple[int, ...] = TOP,
    level: Literal["token", "word"] = "word",
    pool: Pool = "max",
) -> Score:
    """F1 of the top-k words, mean over k, (batch,).

    Special tokens, and those in `keep`, are never selected. If a text has fewer than k words,
    all are selected. If the text was truncated, marked words after the cut are missed, as in the
    authors' evaluation.
    """
    if not k or min(k) < 1 or list(k) != sorted(set(k)):
        raise OptionError(
            f"k={tuple(k)}: expected rising whole numbers of words, from 1", argument="options"
        )
    one = find_stream(attribution, stream)
    if rationales.ndim != 2 or len(rationales) != len(one.scores):
        raise InputError(
            f"rationales are {tuple(rationales.shape)}; expected ({len(one.scores)}, {level}s)",
            argument="rationales",
        )
    scores, marked = finite_scores(one.scores, one.mask), rationales.to(one.scores.device).bool()
    among = removable(one, keep, "keep")
    if level == "word":
        index = word_index(one).masked_fill(~among, -1)
        width = max(marked.shape[1], int(index.amax()) + 1)
        scores, among = word_scores(scores, index, width, pool)
        marked = torch.nn.functional.pad(marked, (0, width - marked.shape[1]))
    elif marked.shape != scores.shape:
        raise InputError(
            f"rationales are {tuple(marked.shape)}; expected one per token, {tuple(scores.shape)}",
            argument="rationales",
        )
    else:
        marked = marked & among
    places = rank_tokens(scores, among)
    there = marked.sum(1).double()
    heights = []
    for top in k:
        selected = (places < top) & among
        hits = (selected & marked).sum(1).double()
        # 2PR / (P + R), written so that 0 is not divided by 0.
        heights.append(2 * hits / (selected.sum(1) + there).clamp(min=1))
    curve = torch.stack(heights, 1)
    return Score(
        curve.mean(1),
        curve,
        tuple(float(top) for top in k),
        f"F1 per sample of the top {number_list(k)} {level}s of '{one.name}'"
        f"{f' ({pool} of its tokens)' if level == 'word' else ''}, special tokens excluded,"
        " mean over k",
    )
