"""`whyformer explain` with a language model: prompts, answers and chats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whyformer as wf
from tests.chat_models import chat_tokenizer, language_model
from whyformer.models.quiet import quiet_loading
from whyformer.targets.specs import Contrast, parse_target

Run = Callable[..., Any]
CHAT = [{"role": "user", "content": "Where is it?"}]
MODEL = "--model model --method gradient_x_input"


def refused(result: Any, *pieces: str) -> None:
    """The command ended with 2 and one line of error that says all the pieces."""
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for piece in pieces:
        assert piece in result.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A language model with a chat template in the working folder, and a chat."""
    with quiet_loading():
        language_model("llama").save_pretrained(tmp_path / "model")  # type: ignore[operator]
    chat_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    return tmp_path


def test_a_prompt_is_answered(run: Run, folder: Path) -> None:
    line = f"explain 'The capital of Germany is' {MODEL} --max-new-tokens 2 --save a.safetensors"
    result = run(line)
    assert result.exit_code == 0, result.output
    a = wf.load(folder / "a.safetensors")
    alone = wf.explain(
        "The capital of Germany is", str(folder / "model"), max_new_tokens=2, method=a.method
    )
    assert a.streams["generated"].said == alone.streams["generated"].said
    assert "cut after 2 tokens" in result.output


def test_a_given_answer_keeps_its_space(run: Run, folder: Path) -> None:
    values = []
    for given in ("--answer ' Berlin'", "--target ' Berlin'", "--answer Berlin"):
        line = f"explain 'The capital is' {MODEL} {given} --save a.safetensors"
        assert run(line).exit_code == 0
        values.append(wf.load(folder / "a.safetensors").output.item())
    assert values[0] == values[1] != values[2]


def test_a_chat(run: Run, folder: Path) -> None:
    for line in (
        "explain --chat chat.json --answer Berlin",
        "explain --chat - --answer Berlin",
    ):
        text = json.dumps({"messages": CHAT})
        result = run(f"{line} {MODEL} --save a.safetensors", text)
        assert result.exit_code == 0, result.output
        stream = wf.load(folder / "a.safetensors").streams["text"]
        assert stream.roles is not None
        assert [role for _, _, role in stream.roles[0]] == ["user"]


def test_several_chats(run: Run, folder: Path) -> None:
    (folder / "two.json").write_text(json.dumps([CHAT, {"messages": CHAT}]))
    result = run(f"explain --chat two.json --chat chat.json --answer Berlin {MODEL} --save a.st")
    assert result.exit_code == 0, result.output
    assert len(wf.load(folder / "a.st")) == 3
    assert (
        result.stdout.count(
            "why \N{LEFT DOUBLE QUOTATION MARK}Berlin\N{RIGHT DOUBLE QUOTATION MARK}?"
        )
        == 3
    )


def test_settings_are_passed_on(run: Run, fake_explain: Any) -> None:
    assert run("explain text --max-new-tokens 7 --seed 3 --each sentence").exit_code == 0
    wanted = {"max_new_tokens": 7, "seed": 3, "each": "sentence"}
    assert wanted.items() <= fake_explain.keywords.items()
    assert run("explain text --answer 42").exit_code == 0
    assert fake_explain.keywords["target"] == "42"
    assert run("explain text --target 42").exit_code == 0
    assert fake_explain.keywords["target"] == 42


def test_errors(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    (tmp_path / "mixed.json").write_text(json.dumps([CHAT, "hello"]))
    (tmp_path / "broken.json").write_text("[{")
    (tmp_path / "other.json").write_text("[1, 2]")
    refused(run("explain text --target a --answer b"), "--target and --answer")
    refused(run("explain text --chat chat.json"), "--chat", "INPUT was given too")
    refused(run("explain --image a.png --chat chat.json"), "--chat")
    refused(run("explain --chat nope.json"), "no file 'nope.json'")
    refused(run("explain --chat broken.json"), "'broken.json' is not JSON", '"role"')
    refused(run("explain --chat other.json"), "entry 0 of 'other.json' is no list of messages")
    refused(run("explain --chat mixed.json"), "entry 1 of 'mixed.json' is no list of messages")
    refused(run("explain --input a.txt --out b.csv --chat chat.json"), "--chat is for one input")
    assert not fake_explain.calls


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (" Berlin", " Berlin"),
        ("42", 42),
        ("a>b", Contrast("a", "b")),
        ("a > b", Contrast("a", "b")),
        (" Berlin> Paris", Contrast(" Berlin", " Paris")),
        ("0>1", Contrast(0, 1)),
    ],
)
def test_what_a_target_names(text: str, target: Any) -> None:
    assert parse_target(text) == target
