"""Layers and heads in a page: every row under its token's name, small, and honest about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.render.test_packing import unpacked
from whyformer.attribution import Attribution, Layer, Stream, views
from whyformer.render.html.layer_payload import layer_payload

Make = Callable[..., Attribution]
Kept = Callable[..., Layer]


def deciding(attribution: Attribution, stream: str, *columns: int) -> Attribution:
    """The attribution with the answer read at these columns of a stream."""
    one = attribution.streams[stream]
    read = torch.zeros(one.scores.shape, dtype=torch.bool)
    read[:, list(columns)] = True
    streams = {**attribution.streams, stream: replace(one, deciding=read)}
    return replace(attribution, streams=streams)


def test_nothing_kept_is_nothing_shown(sentence: Make) -> None:
    assert layer_payload(sentence(), 0, ["text"]) is None
    assert (
        layer_payload(sentence(layers=(Layer(relevance_sum=torch.ones(1)),)), 0, ["text"]) is None
    )
    assert 'class="layers"' not in views["html"].render(sentence())


def test_rows_are_those_of_the_tokens(sentence: Make, attended: Kept) -> None:
    layers = (attended(3, 7, 7), attended(3, 7, 7, seed=1))
    data = layer_payload(deciding(sentence(layers=layers), "text", 0), 0, ["text"])
    assert data is not None
    (part,) = data["stacks"]["text"]["parts"]
    assert part["tokens"] == ("[CLS]", "grip", "ping", ",", "yet", "dull", "[SEP]")
    assert part["special"] == (0, 6)
    assert data["stacks"]["text"]["deciding"] == [0]
    assert [layer["number"] for layer in data["layers"]] == [1, 2]
    for layer, payload in zip(layers, data["layers"], strict=True):
        assert layer.attention is not None
        heads = layer.attention[0]
        (packed,) = payload["maps"]
        for name, expected in (
            ("heads", heads.flatten(0, 1)),
            ("mean", heads.mean(0)),
            ("start", torch.cat([heads.mean(0)[:1], heads[:, 0]])),
        ):
            torch.testing.assert_close(unpacked(packed[name]), expected, atol=0.005, rtol=0)
    assert "rounded to 127 steps" in data["note"]
    assert "strongest" not in data["note"]


def test_with_the_gradient_both_are_shown(sentence: Make, attended: Kept) -> None:
    layer = attended(2, 7, 7, gradient=True)
    data = layer_payload(sentence(layers=(layer,)), 0, ["text"])
    assert data is not None
    assert data["kinds"] == ["attention", "attention x gradient"]
    assert layer.attention is not None
    assert layer.gradient is not None
    expected = (layer.attention * layer.gradient)[0].mean(0)
    back = unpacked(data["layers"][0]["maps"][1]["mean"])
    torch.testing.assert_close(back, expected, atol=0.01, rtol=0)
    # It is not known where the answer is read: the mean of all tokens is the start.
    assert data["stacks"]["text"]["deciding"] == []
    start = unpacked(data["layers"][0]["maps"][1]["start"])[0]
    torch.testing.assert_close(start, expected.mean(0), atol=0.01, rtol=0)


def test_a_class_token_is_no_patch(image: Make, attended: Kept) -> None:
    made = image(torch.rand(2, 3), layers=(attended(2, 7, 7, "image"),))
    data = layer_payload(deciding(made, "image"), 0, ["image"])
    assert data is not None
    token, patches = data["stacks"]["image"]["parts"]
    assert token["tokens"] == ("class token",)
    assert patches["grid"] == [2, 3]
    assert patches["panel"] == 0
    assert data["stacks"]["image"]["deciding"] == [0]


def test_streams_of_one_stack_follow_each_other(question: Make, attended: Kept) -> None:
    made = question(layers=(attended(2, 9 + 1 + 48, 9 + 1 + 48, "text+image"),))
    data = layer_payload(deciding(made, "text", 0), 0, ["text", "image"])
    assert data is not None
    words, token, patches = data["stacks"]["text+image"]["parts"]
    assert len(words["tokens"]) == 9
    assert token["tokens"] == ("class token",)
    assert patches == {"name": "image", "panel": 1, "grid": [6, 8]}
    assert data["stacks"]["text+image"]["deciding"] == [0]


def test_one_stack_asks_another(detection: Make, attended: Kept) -> None:
    layers = (attended(2, 48, 48, "image"), attended(2, 6, 48, "queries", "image"))
    data = layer_payload(detection(layers=layers), 0, ["image", "queries"])
    assert data is not None
    assert [(x["asking"], x["answering"]) for x in data["layers"]] == [
        ("image", "image"),
        ("queries", "image"),
    ]


def test_an_unknown_stack_is_numbered_and_a_strange_one_left_out(
    sentence: Make, attended: Kept
) -> None:
    layers = (attended(2, 1, 7, "probe", "text"), attended(2, 9, 9), attended(2, 7, 7, batch=4))
    data = layer_payload(sentence(layers=layers), 0, ["text"])
    assert data is not None
    assert len(data["layers"]) == 1
    assert data["stacks"]["probe"]["parts"][0]["tokens"] == ("probe 0",)
    assert "2 layers are not shown" in data["note"]


def test_padding_is_cut_off(attended: Kept) -> None:
    stream = Stream(
        "text",
        torch.tensor([[1.0, 2.0, 3.0], [0.0, 4.0, 5.0]]),
        torch.tensor([[True, True, True], [False, True, True]]),
        (("a", "b", "c"), ("[PAD]", "d", "e")),
    )
    layer = attended(2, 3, 3, batch=2)
    made = Attribution(
        "gae",
        {"text": stream},
        "text",
        torch.zeros(2, dtype=torch.long),
        torch.ones(2),
        ("x", "y"),
        layers=(layer,),
    )
    data = layer_payload(made, 1, ["text"])
    assert data is not None
    assert data["stacks"]["text"]["parts"][0]["tokens"] == ("d", "e")
    assert layer.attention is not None
    back = unpacked(data["layers"][0]["maps"][0]["mean"])
    expected = layer.attention[1].mean(0)[1:, 1:]
    torch.testing.assert_close(back, expected, atol=0.005, rtol=0)


@pytest.mark.parametrize("gradient", [False, True])
def test_a_small_budget_is_kept_and_noted(sentence: Make, attended: Kept, gradient: bool) -> None:
    layers = tuple(attended(8, 7, 7, gradient=gradient, seed=i) for i in range(4))
    whole = layer_payload(sentence(layers=layers), 0, ["text"])
    tight = layer_payload(sentence(layers=layers), 0, ["text"], budget=2_000)
    assert whole is not None
    assert tight is not None
    assert "To keep the page small" in tight["note"]
    assert "1 strongest of 7" in tight["note"]
    rows = unpacked(tight["layers"][0]["maps"][0]["heads"])
    assert ((rows != 0).sum(1) == 1).all()
    # What is seen first is there in full, whatever the budget.
    assert tight["layers"][0]["maps"][0]["start"] == whole["layers"][0]["maps"][0]["start"]
