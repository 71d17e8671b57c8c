"""What methods that remove tokens share: units, fills, errors, and the result's standard errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import whyformer as wf
from tests.methods.removing import TEXT, explain, loaded
from whyformer.errors import InputError, OptionError
from whyformer.inputs.prepare import prepare
from whyformer.methods.perturbation.units import sentences, windows, words
from whyformer.models.families import families, family_of
from whyformer.models.families.tiny import tiny_inputs

METHODS = [name for name, one in wf.methods().items() if "removal" in one.needs]


def test_they_are_declared() -> None:
    assert METHODS == ["context_cite", "kernel_shap", "occlusion", "partition_shap"]
    assert all(wf.methods()[name].slow for name in METHODS)


def spans(text: str, way: Any) -> list[str]:
    """The texts of the units."""
    batch = prepare(text, loaded().module, loaded().processor, family_of(loaded().module))
    assert batch.word_ids is not None
    assert batch.tokens is not None
    columns = [c for c, word in enumerate(batch.word_ids[0]) if word is not None]
    return [" ".join(batch.tokens[0][c] for c in group) for group in way(batch, 0, columns)]


def test_words() -> None:
    assert spans("the gripping plot.", words) == ["the", "grip ping", "plot", "."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a good film. the plot is bad!", ["a good film .", "the plot is bad !"]),
        ("a good film", ["a good film"]),
        ("'a film!' the plot", ["' a film ! '", "the plot"]),
        ("a film... the plot", ["a film . . .", "the plot"]),
        (". a film", [".", "a film"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert spans(text, sentences) == expected


def test_two_texts_are_two_sentences() -> None:
    found = explain([("a good film", "the plot")], method="occlusion", unit="sentence").scores[0]
    assert (found != 0).tolist() == [False, *[True] * 3, False, *[True] * 2, False]
    assert found[1] == found[3] != found[5]


def test_windows() -> None:
    assert windows((2, 3), 2) == [(0, 1, 3, 4), (1, 2, 4, 5)]
    assert windows((1, 2), 1) == [(0,), (1,)]


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_compare(method: str) -> None:
    with pytest.raises(InputError, match="sample 0 has 1 token that can be removed, special"):
        explain("film", method=method)
    with pytest.raises(InputError, match="sample 0 has only special tokens"):
        explain("[SEP]", method=method)
    ids = torch.tensor([[2, 3, 3]])
    with pytest.raises(InputError, match=r"sample 0 has (no tokens that can be|only special)"):
        explain({"input_ids": ids}, method=method)


def test_a_sample_is_named_by_its_place_in_the_batch() -> None:
    with pytest.raises(InputError, match="sample 1 has 1 token"):
        explain([TEXT, "film"], method="occlusion")


def test_one_sentence() -> None:
    with pytest.raises(InputError, match=r"sample 0 has 1 sentence .* Pass a smaller unit"):
        explain(method="occlusion", unit="sentence")


def test_an_unknown_unit() -> None:
    with pytest.raises(
        OptionError, match=r"unit='paragraph'.*'token', 'word', 'sentence', 'patch'"
    ):
        explain(method="occlusion", unit="paragraph")


def test_a_unit_of_other_inputs() -> None:
    with pytest.raises(OptionError, match="unit='patch' is not a unit"):
        explain(method="occlusion", unit="patch")
    with pytest.raises(OptionError, match="size=2 does not fit"):
        explain(method="occlusion", size=2)
    vit: Any = families["vit"].tiny()
    for unit in ("token", "word", "sentence"):
        with pytest.raises(OptionError, match=f"unit='{unit}' is not a unit"):
            wf.explain(tiny_inputs(vit), vit, method="occlusion", target=1, unit=unit)
    for size in (0, 99):
        with pytest.raises(OptionError, match=f"size={size} does not fit"):
            wf.explain(tiny_inputs(vit), vit, method="occlusion", target=1, size=size)


def test_words_without_a_tokenizer() -> None:
    bert: Any = families["bert"].tiny()
    with pytest.raises(OptionError, match="no tokenizer"):
        wf.explain(tiny_inputs(bert), bert, method="occlusion", target=1, unit="word")


@pytest.mark.parametrize("fill", ["black", "paint"])
def test_a_fill_that_there_is_not(fill: str) -> None:
    with pytest.raises(OptionError, match=f"fill='{fill}' is "):
        explain(method="occlusion", fill=fill)


def test_dropping_tokens_around_a_position() -> None:
    gpt: Any = families["gpt2"].tiny()
    with pytest.raises(OptionError, match="fill='drop' moves the remaining tokens"):
        wf.explain(tiny_inputs(gpt), gpt, method="occlusion", target=1, fill="drop")
    with pytest.raises(OptionError, match="fill='drop' moves the remaining tokens"):
        explain(method="occlusion", fill="drop", target=lambda output: output.logits[:, 0])


def test_inputs_that_count_tokens_before_samples() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    inputs = torch.randn(5, 2, 8)
    with pytest.raises(InputError, match="no tokens can be removed"):
        wf.explain(inputs, model, method="occlusion", target=lambda out: out.mean((0, 2)))


# -- the result ------------------------------------------------------------------------------------


def test_standard_errors_are_saved_and_loaded(tmp_path: Path) -> None:
    a = explain([TEXT, "a bad film"], method="kernel_shap", samples=64)
    a.save(tmp_path / "a.safetensors")
    errors = wf.load(tmp_path / "a.safetensors").streams["text"].errors
    assert errors is not None
    assert a.streams["text"].errors is not None
    assert torch.equal(errors, a.streams["text"].errors)
    assert a[1].streams["text"].errors is not None
    assert a[1].streams["text"].errors.shape == a[1].scores.shape
    assert a.to_dict()["streams"]["text"]["errors"] == errors.tolist()
    assert explain(method="occlusion").streams["text"].errors is None


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_scores(method: str) -> None:
    options = {"samples": 64} if method != "occlusion" else {}
    first, second = (explain(method=method, **options) for _ in range(2))
    assert torch.equal(first.scores, second.scores)
