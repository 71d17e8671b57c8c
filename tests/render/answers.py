"""Answers made by hand: a chat with a short answer, and a long prompt with a long one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream

PROMPT = [
    "<s>",
    "Anna",
    "has",
    "a",
    "ball",
    ".",
    "Ben",
    "has",
    "a",
    "key",
    "⏎",
    "Who",
    "has",
    "it",
    "?",
    "</s>",
]
SAID = ["Anna", "has", "it", ".", "Ben", "has", "not"]
ROLES = ((1, 5, "system"), (5, 15, "user"))


def texts(
    prompt: Sequence[str],
    said: Sequence[str],
    rows: Tensor,
    own: Tensor | None = None,
    **generated: Any,
) -> dict[str, Any]:
    """The streams and maps of an answer; `rows` is (rows, prompt)."""
    words = tuple(None if word in ("<s>", "</s>") else i for i, word in enumerate(prompt))
    before = torch.zeros(len(rows), len(said)) if own is None else own
    text = Stream("text", rows.sum(0)[None], torch.ones(1, len(prompt)).bool())
    return {
        "text": {**vars(text), "tokens": (tuple(prompt),), "word_ids": (words,)},
        "generated": {
            "name": "generated",
            "scores": before.sum(0)[None],
            "mask": torch.ones(1, len(said)).bool(),
            "tokens": (tuple(said),),
            "word_ids": (tuple(range(len(said))),),
            "said": (tuple(said),),
            **generated,
        },
        "maps": {("generated", "text"): rows[None], ("generated", "generated"): before[None]},
    }


def make(parts: dict[str, Any], label: str, **text: Any) -> Attribution:
    """The attribution of these parts; keywords are fields of the prompt's stream."""
    streams = {
        "text": Stream(**{**parts["text"], **text}),
        "generated": Stream(**parts["generated"]),
    }
    return Attribution(
        "gae",
        streams,
        "text",
        torch.tensor([-1]),
        torch.tensor([2.5]),
        (label,),
        maps=parts["maps"],
        provenance={"model": "by hand"},
    )


def chat_answer(
    said: Sequence[str] = SAID, prompt: Sequence[str] = PROMPT, role: str = "user", **more: Any
) -> Attribution:
    """A chat of two messages and an answer of two sentences; row t is strongest at word t + 1."""
    rows = torch.full((len(said), len(prompt)), 0.01)
    for t in range(len(said)):
        rows[t, t + 1] = 1.0 + 0.1 * t
    own = 0.1 * torch.ones(len(said), len(said)).tril(-1)
    chances = torch.linspace(0.2, 0.999, len(said))[None]
    parts = texts(prompt, said, rows, own, **{"probabilities": chances, **more})
    roles = tuple((start, end, role if name == "user" else name) for start, end, name in ROLES)
    return make(parts, " ".join(said), roles=(roles,))


def spanned_answer(spans: Sequence[tuple[int, int]] = ((0, 4), (4, 7))) -> Attribution:
    """The same, explained by sentence: a row for each span."""
    rows = torch.full((len(spans), len(PROMPT)), 0.01)
    for row in range(len(spans)):
        rows[row, 2 + 3 * row] = 1.0
    return make(texts(PROMPT, SAID, rows, spans=(tuple(spans),)), " ".join(SAID))


def long_answer(prompt: int = 4000, output: int = 200) -> Attribution:
    """A prompt of sentences with ten words, and an answer; row t is strongest at word 19 t."""
    sentence = "Once there was number %d in the old kitchen ."
    words = " ".join(sentence % i for i in range(prompt // 10 + 1)).split()[:prompt]
    said = " ".join(sentence % i for i in range(output // 10 + 1)).split()[:output]
    noise = torch.rand(output, prompt, generator=torch.Generator().manual_seed(0)) - 0.5
    rows = 0.01 * noise
    for t in range(output):
        rows[t, 19 * t % prompt] = 1.0
    chances = torch.rand(1, output, generator=torch.Generator().manual_seed(1))
    parts = texts(words, said, rows, probabilities=chances)
    return make(parts, " ".join(said), roles=(((0, 10, "system"), (10, prompt, "user")),))
