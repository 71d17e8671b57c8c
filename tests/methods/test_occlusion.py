"""Occlusion against a loop by hand: drop the token, run the model, subtract."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import whyformer as wf
from tests.methods.removing import TEXT, explain, ids_of, loaded, value
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs


def test_tokens_equal_a_loop_by_hand() -> None:
    columns = range(len(ids_of()))
    whole, last = value(columns), len(columns) - 1
    expected = [whole - value([c for c in columns if c != gone]) for gone in columns]
    expected[0] = expected[last] = 0.0  # [CLS] and [SEP] are never removed
    found = explain(method="occlusion").scores[0]
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12
    )
    assert found[1:last].abs().min() > 1e-6


def test_a_words_tokens_share_its_score() -> None:
    found = explain(method="occlusion", unit="word").scores[0]
    columns = range(len(ids_of()))
    expected = value(columns) - value([c for c in columns if c not in (2, 3)])
    torch.testing.assert_close(found[2:4].sum().item(), expected)
    assert found[2] == found[3]


@pytest.mark.parametrize("fill", ["mask", "unknown", "zero", "mean"])
def test_fills_that_keep_places(fill: str) -> None:
    found = explain(method="occlusion", fill=fill).scores[0]
    ids = ids_of().clone()
    model: Any = loaded().module
    replaced = {"mask": 4, "unknown": 1}
    table = model.get_input_embeddings().weight.detach()
    for column in range(1, len(ids) - 1):
        other, states = ids.clone(), table[ids].clone()
        if fill in replaced:
            other[column] = replaced[fill]
            states = table[other]
        else:
            states[column] = 0 if fill == "zero" else table.mean(0)
        with torch.no_grad():
            lost = model(inputs_embeds=states.unsqueeze(0)).logits[0, 1].item()
        torch.testing.assert_close(found[column].item(), value(range(len(ids))) - lost)


@pytest.mark.parametrize("size", [1, 2])
def test_patches_and_windows(size: int) -> None:
    """Zeros in the pixels of each window; a patch gets the mean of the windows it is in."""
    model: Any = families["vit"].tiny().double()
    inputs = tiny_inputs(model, (1,))
    a = wf.explain(inputs, model, method="occlusion", target=1, size=size)
    (rows, columns), pixels = a.streams["image"].grid or (0, 0), inputs["pixel_values"]
    step = pixels.shape[-1] // columns
    total, times = torch.zeros(2, rows, columns, dtype=torch.float64)
    with torch.no_grad():
        whole = model(pixels).logits[0, 1]
        for top in range(rows - size + 1):
            for left in range(columns - size + 1):
                gone = pixels.clone()
                area = [slice(step * at, step * (at + size)) for at in (top, left)]
                gone[:, :, area[0], area[1]] = 0
                lost = whole - model(gone).logits[0, 1]
                total[top : top + size, left : left + size] += lost / size**2
                times[top : top + size, left : left + size] += 1
    # transformers' ViT narrows its softmax to float32, which whyformer does not let it do.
    torch.testing.assert_close(a.streams["image"].score_map[0], total / times, rtol=0, atol=1e-6)


def test_contrasts_and_callables() -> None:
    """The value that is followed is the explained one, whatever it is."""
    one, other = (
        explain(method="occlusion", fill="zero"),
        explain(method="occlusion", target=0, fill="zero"),
    )
    both = explain(method="occlusion", target=wf.contrast(1, 0), fill="zero")
    torch.testing.assert_close(both.scores, one.scores - other.scores)
    own = explain(method="occlusion", target=lambda out: 3 * out.logits[:, 1], fill="zero")
    torch.testing.assert_close(own.scores, 3 * one.scores)


def test_a_callable_sees_its_own_batch() -> None:
    """Numbers per sample in a closure meet their own samples, with mixed lengths too."""
    factors = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    texts = [TEXT, "a bad film", "the plot is good"]
    found = explain(
        texts,
        method="kernel_shap",
        samples=64,
        fill="zero",
        target=lambda out: out.logits[:, 1] * factors,
    )
    for i, text in enumerate(texts):
        alone = explain(text, method="kernel_shap", samples=64, fill="zero")
        torch.testing.assert_close(found[i].scores, alone.scores * factors[i])


def test_a_next_token_keeps_its_place() -> None:
    """Dropping tokens would move the one that is read, so embeddings become 0 instead."""
    model: Any = families["gpt2"].tiny().double()
    inputs = tiny_inputs(model, (6,))
    a = wf.explain(inputs, model, method="occlusion", target=wf.token(3, 5))
    states = model.get_input_embeddings()(inputs["input_ids"]).detach()
    with torch.no_grad():
        whole = model(inputs_embeds=states).logits[0, 3, 5]
        for column in range(6):
            changed = states.clone()
            changed[:, column] = 0
            lost = model(inputs_embeds=changed).logits[0, 3, 5]
            torch.testing.assert_close(a.scores[0, column], whole - lost, atol=1e-6, rtol=0)
    assert a.scores[0, :4].abs().min() > 1e-4
    assert (a.scores[0, 4:] == 0).all()
