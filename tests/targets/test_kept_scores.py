"""A language model computes the scores that the target reads, and no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import whyformer as wf
from whyformer.errors import TargetError
from whyformer.models.families.tiny import tiny_inputs, tiny_models
from whyformer.models.load import load_model

LENGTHS = (7, 5)
EXACT = {"rtol": 0, "atol": 1e-12}
# The target, and what it reads: a column counted from the right of each padded sample.
READS: dict[str, tuple[Any, int]] = {
    "class": (5, -1),
    "one per sample": ([5, 5], -1),
    "array": (torch.tensor([5, 5]), -1),
    "contrast": (wf.contrast(5, 9), -1),
    "last token": (wf.token(-1, 5), -1),
    "second last": (wf.token(-2, 5), -2),
    "contrast of tokens": (wf.contrast(wf.token(-1, 5), wf.token(-3, 9)), -3),
}


@cache
def model_of(name: str) -> Any:
    return tiny_models()[name][1]().double()


def inputs_of(name: str, padding: str, lengths: tuple[int, ...] = LENGTHS) -> dict[str, Tensor]:
    return tiny_inputs(model_of(name), lengths, padding=padding)


def computed(name: str, ask: Callable[[], Any]) -> tuple[Any, set[int]]:
    """What was asked for, and how many scores per sample the model computed on the way."""
    counts: set[int] = set()
    head = model_of(name).get_output_embeddings()
    handle = head.register_forward_hook(lambda part, args, out: counts.add(out.shape[1]))
    try:
        return ask(), counts
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("name", "lengths", "what"),
    [
        *(("llama", (6, 6), what) for what in READS),
        *((name, (7,), "second last") for name in ("llama", "gpt2", "qwen2")),
    ],
)
def test_only_the_scores_that_are_read(name: str, lengths: tuple[int, ...], what: str) -> None:
    target, column = READS[what]
    inputs = inputs_of(name, "right", lengths)
    _, counts = computed(
        name, lambda: wf.explain(inputs, model_of(name), target=target, method="attn_lrp")
    )
    assert counts == {-column}


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("method", ["attn_lrp", "gae", "integrated_gradients", "occlusion"])
def test_scores_are_those_of_all_logits(padding: str, method: str) -> None:
    """A callable sees all logits: nothing is known of what it reads."""
    model, inputs = model_of("llama"), inputs_of("llama", padding)
    last = [6, 6] if padding == "left" else [6, 4]
    how: dict[str, Any] = {"steps": 3} if method == "integrated_gradients" else {}
    if method == "occlusion":
        how = {"fill": "zero"}

    def logit(output: Any) -> Tensor:
        return output.logits[[0, 1], last, 5]

    expected, counts = computed(
        "llama", lambda: wf.explain(inputs, model, target=logit, method=method, **how)
    )
    assert max(counts) == 7
    found, fewer = computed(
        "llama", lambda: wf.explain(inputs, model, target=5, method=method, **how)
    )
    assert max(fewer) < 7
    torch.testing.assert_close(found.output, expected.output, **EXACT)
    torch.testing.assert_close(found.scores, expected.scores, **EXACT)


def test_a_text_in_the_prompt() -> None:
    """The scores from the token before the text on."""
    model = load_model("reader")
    prompt = "Anna put the red ball in the kitchen. Where is the red ball?"
    found = wf.explain(prompt, model, target=wf.token("kitchen"))
    ids = model.processor(prompt)["input_ids"]
    place = next(
        i for i, token in enumerate(ids) if model.processor.decode(token).strip() == "kitchen"
    )

    def logit(output: Any) -> Tensor:
        return output.logits[:, place - 1, ids[place]]

    expected = wf.explain(prompt, model, target=logit)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-4)


def test_a_loss_needs_all_scores() -> None:
    model = model_of("llama")
    inputs = inputs_of("llama", "right", (6, 6))
    inputs["labels"] = inputs["input_ids"].clone()
    _, counts = computed("llama", lambda: wf.explain(inputs, model, target=5))
    assert counts == {6}


@pytest.mark.parametrize("kept", [1, torch.tensor([0, 6])])
def test_scores_that_the_user_left_out(kept: Any) -> None:
    inputs = {**inputs_of("llama", "right", (7, 7)), "logits_to_keep": kept}
    with pytest.raises(TargetError, match=r"logits_to_keep=.* is in the inputs"):
        wf.explain(inputs, model_of("llama"), target=wf.token(2, 5))


def test_scores_that_the_user_kept() -> None:
    model, inputs = model_of("llama"), inputs_of("llama", "right", (7, 7))
    expected = wf.explain(inputs, model, target=wf.token(5, 9))
    found = wf.explain({**inputs, "logits_to_keep": 3}, model, target=wf.token(5, 9))
    torch.testing.assert_close(found.scores, expected.scores, **EXACT)
