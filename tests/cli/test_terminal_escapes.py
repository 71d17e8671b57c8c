"""Text of others cannot steer the terminal, wherever it is printed: labels, paths, headers."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from rich.console import Console

from tests.wordpiece import wordpiece_of
from whyformer.batching.progress import Progress
from whyformer.cli import console
from whyformer.cli.progress import progress_bar

Run = Callable[..., Any]
BAD = "a\x1b]0;title\x07\x9b31m\x1b[2J\u202eb\rc"
STEERING = set("\x1b\x07\x9b\u202e\r")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film", BAD.casefold())

# One command per kind of place; {bad} is the hostile text, quoted for the shell.
LINES = (
    "explain {bad} --model m",
    "explain good --model {bad}",
    "explain good --method {bad}",
    "explain good --model m --target {bad}",
    "explain good --model m --target {bad}'>'{bad}",
    "explain good --model m --token {bad}",
    "explain good --model m --answer {bad}",
    "explain good --model m --device {bad}",
    "explain good --model m --dtype {bad}",
    "explain good --model m --option {bad}",
    "explain good --model m --option {bad}=1",
    "explain good --model m --each {bad}",
    "explain good --model m --at {bad}",
    "explain good --model m --limit {bad}",
    "explain good --model m --deciding {bad}",
    "explain good --model m --{bad}",
    "explain good {bad}",
    "{bad}",
    "--{bad}",
    "explain good --model m --html {bad}.html",
    "explain good --model m --json {bad}.json",
    "explain good --model m --save {bad}.st",
    "explain good --model m --png nowhere/{bad}.png",
    "explain {bad}.txt",
    "explain {bad}.png",
    "explain --image {bad}.png good",
    "explain --chat {bad} --model m",
    "explain --input {bad}.csv --out s.jsonl",
    "explain --input bad.csv --out {bad}.jsonl --model m --column {bad}",
    "explain --input bad.csv --out s.jsonl --model m --column nowhere",
    "explain --input bad.csv --out s.jsonl --model m --target-column {bad}",
    "explain --input bad.csv --out s.jsonl --model m --split {bad}",
    "compare good --model m --methods {bad}",
    "compare good --model m --targets {bad}",
    "evaluate --data {bad}:x",
    "evaluate --data csv:bad.csv --model m --metrics {bad}",
    "audit names --names {bad}",
    "audit names --names bad_names.csv --templates t.txt --model m --draws 5",
    "audit {bad}",
    "recommend --data {bad}.csv",
    "reproduce {bad}",
    "methods {bad}",
    "metrics {bad}",
)


@pytest.fixture
def places(tmp_path: Path) -> None:
    """A model with a hostile label and a hostile token, and files with hostile headers."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = BertConfig(
        vocab_size=len(WORDS),
        num_attention_heads=1,
        id2label={0: BAD, 1: f"{BAD}2"},
        **sizes,
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path / "m")
    wordpiece_of(WORDS).save_pretrained(tmp_path / "m")
    Image.new("L", (4, 4)).save(tmp_path / "digit.png")
    head = BAD.replace("\r", "")  # a carriage return ends a line of CSV
    (tmp_path / "bad.csv").write_text(f"{head},text\n{head},good film\n", encoding="utf-8")
    names = "\n".join(f"{head}{i},{group}{head}" for i, group in enumerate("xxyy"))
    (tmp_path / "bad_names.csv").write_text(f"name,group\n{names}\n", encoding="utf-8")
    (tmp_path / "t.txt").write_text("{name} good film\n{name} film\n", encoding="utf-8")


@pytest.mark.parametrize("line", LINES)
def test_nothing_steers_the_terminal(run: Run, places: None, line: str) -> None:
    result = run(line.replace("{bad}", shlex.quote(BAD)), "")
    assert result.exit_code in (0, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert not STEERING & set(result.stdout + result.stderr)
    assert result.stdout + result.stderr


def test_a_path_with_a_line_break_is_one_line(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    result = run("explain good --html 'a\nerror: b.html'")
    assert result.stderr == "wrote a error: b.html\n"


def test_a_bar_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyformer.cli.progress.silence_transformers", lambda: None)
    file = StringIO()
    terminal = Console(file=file, force_terminal=True, width=120, _environ={"TERM": "xterm"})
    monkeypatch.setattr("whyformer.cli.progress.stderr_console", lambda: console._safe(terminal))
    with progress_bar() as report:
        report(Progress(BAD, 1, 2, part=BAD))
        time.sleep(0.3)  # it is drawn ten times in a second
    assert "title" in file.getvalue()
    assert "\x1b]0;" not in file.getvalue()
    assert not {"\x07", "\x9b", "\u202e"} & set(file.getvalue())
