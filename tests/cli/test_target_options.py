"""Pairs, tokens, spans, labels, devices and several models, from the shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import whyformer as wf
from tests.wordpiece import wordpiece_of
from whyformer.cli.target_options import TargetOptions
from whyformer.errors import OptionError
from whyformer.targets.specs import Contrast, Query, Span, Token

Run = Callable[..., Any]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (*SPECIAL, "who", "lives", "in", "berlin", "ada", "a", "gripping", "film")
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with tiny models, named by what they predict, and one with other words."""
    import transformers

    torch.manual_seed(0)
    entities = dict(enumerate(["O", "B-LOC", "B-PER"]))
    topics = dict(enumerate(["joy", "anger", "fear, or worry"]))
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "entities": ("BertForTokenClassification", {"id2label": entities}),
        "answers": ("BertForQuestionAnswering", {}),
        "topics": (
            "BertForSequenceClassification",
            {"id2label": topics, "problem_type": "multi_label_classification"},
        ),
        "other": ("BertForSequenceClassification", {"id2label": topics}),
    }
    for name, (kind, more) in kinds.items():
        wordpiece_of(WORDS).save_pretrained(tmp_path / name)
        config = transformers.BertConfig(vocab_size=len(WORDS), **SIZES, **more)
        model = getattr(transformers, kind)(config)
        if name == "topics":
            model.classifier.bias.data = torch.tensor([9.0, -9.0, 8.0])
        model.save_pretrained(tmp_path / name)
    return tmp_path


def refused(result: Any, *pieces: str) -> None:
    """The command ended with 2 and one line of error that says all the pieces."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for piece in pieces:
        assert piece in result.stderr


@pytest.mark.parametrize(
    ("options", "target", "wanted"),
    [
        ({}, None, None),
        ({}, " Berlin", " Berlin"),
        ({"query": 3}, "cat", Query(3, "cat")),
        ({"token": "Berlin"}, None, Token("Berlin")),
        ({"token": "4"}, "B-LOC", Token(4, "B-LOC")),
        ({"token": "-1"}, "1>0", Contrast(Token(-1, 1), Token(-1, 0))),
        ({"token": "4", "occurrence": 1}, None, Token("4", None, 1)),
        ({"span": "Jane Austen"}, None, Span("Jane Austen")),
        ({"span": "3..5"}, None, Span(3, 5)),
        ({"answer": " 42"}, None, " 42"),
    ],
)
def test_what_the_options_name(options: Any, target: str | None, wanted: Any) -> None:
    assert TargetOptions(**options).read(target) == wanted


@pytest.mark.parametrize(
    ("options", "target", "piece"),
    [
        ({"query": 3, "token": "a"}, None, "--query and --token"),
        ({"span": "a", "token": "a"}, None, "--token and --span"),
        ({"span": "a"}, "b", "--target and --span"),
        ({"answer": "a"}, "b", "--target and --answer"),
        ({"answer": "a", "token": "b"}, None, "--token and --answer"),
        ({"occurrence": 1}, None, "--occurrence 1"),
    ],
)
def test_options_that_exclude_each_other(options: Any, target: str | None, piece: str) -> None:
    with pytest.raises(OptionError, match=piece):
        TargetOptions(**options).read(target)


def test_entities_of_one_word(run: Run, models: Path) -> None:
    line = "explain 'ada lives in berlin' --model entities --token berlin"
    shown = run(f"{line} --target B-LOC --save a.st")
    assert shown.exit_code == 0, shown.output
    assert "why B-LOC at position 4 (berlin)?" in shown.stdout
    python = wf.explain("ada lives in berlin", "entities", target=wf.token("berlin", "B-LOC"))
    assert torch.equal(wf.load(models / "a.st").scores, python.scores)
    refused(run(f"{line}s"), "'berlins'")
    refused(run(line.replace("--token berlin", "--target B-LOC")), "a class per token", "--token")


def test_an_answer_in_a_context(run: Run, models: Path) -> None:
    (models / "passage.txt").write_text("ada lives in berlin\n")
    line = "explain 'who lives in berlin' --context passage.txt --model answers"
    shown = run(f"{line} --span 'ada' --save a.st")
    assert shown.exit_code == 0, shown.output
    question = ("who lives in berlin", "ada lives in berlin")
    python = wf.explain(question, "answers", target=wf.span("ada"))
    assert torch.equal(wf.load(models / "a.st").scores, python.scores)
    assert run(f"{line} --span 6..7").exit_code == 0
    refused(run(f"{line} --span paris"), "'paris'")


def test_a_pair_is_two_texts(run: Run, fake_explain: Any) -> None:
    assert run("explain one --pair two").exit_code == 0
    assert fake_explain.inputs == ("one", "two")
    assert run("compare - --pair two", "one").exit_code == 0
    assert fake_explain.inputs == ("one", "two")
    refused(run("explain one --pair two --image a.png"), "--pair", "--image")
    refused(run("explain - --pair -"), "both '-'")


def test_labels_of_a_multi_label_model(run: Run, models: Path) -> None:
    shown = run("explain 'a gripping film' --model topics")
    assert shown.exit_code == 0, shown.output
    assert "why joy?" in shown.stdout
    assert "note: also predicted: fear, or worry (> 99.9 %)." in shown.stderr
    assert "whyformer compare --predicted" in shown.stderr
    compared = run("compare 'a gripping film' --model topics --predicted --json a.json")
    assert compared.exit_code == 0, compared.output
    labels = [one["labels"] for one in json.loads((models / "a.json").read_text())]
    assert labels == [["joy"], ["fear, or worry"]]
    # A label with a comma can be named, too.
    named = run("compare 'a film' --model topics --target joy --target 'fear, or worry'")
    assert named.exit_code == 0, named.output
    assert "fear, or worry" in named.stdout
    refused(run("compare 'a film' --model other --predicted"), "multi-label", "--targets")
    refused(run("compare 'a film' --target joy --predicted"), "--target and --predicted")


def test_two_models_are_compared(run: Run, models: Path) -> None:
    line = "compare 'a gripping film' --model topics --model other --target joy"
    result = run(f"{line} --html both.html")
    assert result.exit_code == 0, result.output
    for piece in ("topics, libragrad", "other, libragrad", "gripping"):
        assert piece in " ".join(result.stdout.split())
    assert "topics, libragrad" in (models / "both.html").read_text("utf-8")
    # Other tokens of the same words: side by side too.
    result = run("compare 'a gripping tale' --model topics --model sst2 --target 1")
    assert result.exit_code == 0, result.output
    for piece in ("topics, libragrad", "sst2, libragrad", "tale"):
        assert piece in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("explain film --model a --model b", ("--model is given 2 times", "whyformer compare")),
        ("explain film -t a --target b", ("--target is given 2 times", "whyformer compare")),
        ("explain film --png a.png --png b.png", ("--png is given 2 times", "Pass it once")),
        ("audit names --model a -m b", ("--model is given 2 times",)),
    ],
)
def test_an_option_is_not_taken_twice(run: Run, line: str, pieces: tuple[str, ...]) -> None:
    refused(run(line), *pieces)


def test_device_and_dtype(run: Run, models: Path) -> None:
    line = "explain 'a gripping film' --model topics --target joy"
    wide = run(f"{line} --dtype float64 --device cpu --save a.st")
    assert wide.exit_code == 0, wide.output
    assert wf.load(models / "a.st").scores.dtype == torch.float64
    refused(run(f"{line} --dtype flaot32"), "'flaot32'", "--dtype float32, float64")
    refused(run(f"{line} --device gpu"), "'gpu'", "--device cpu")
