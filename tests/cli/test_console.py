"""The console: transformers is silenced, and only when the command line asks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from whyformer.cli import console

Run = Callable[..., Any]
silence = console.silence_transformers  # the real one: the fixture `calm` replaces it


@pytest.fixture
def voice(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The logging of transformers, put back as it was afterwards."""
    from transformers.utils import logging as chatter

    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    hub = logging.getLogger("huggingface_hub")
    before = chatter.get_verbosity(), chatter.is_progress_bar_enabled(), hub.level
    yield chatter
    chatter.set_verbosity(before[0])
    if before[1]:
        chatter.enable_progress_bar()
    hub.setLevel(before[2])


def test_transformers_is_silenced(voice: Any) -> None:
    voice.set_verbosity_info()
    voice.enable_progress_bar()
    silence()
    assert voice.get_verbosity() == voice.ERROR
    assert not voice.is_progress_bar_enabled()
    assert not logging.getLogger("huggingface_hub.utils._http").isEnabledFor(logging.WARNING)


def test_the_whole_way_with_a_model_from_a_folder(
    run: Run, voice: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    voice.set_verbosity_error()
    voice.disable_progress_bar()
    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, "a", "film", "grip", "##ping", "yet", "dull"]
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    folder = tmp_path / "model"
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(words)})
    tokenizer.save_pretrained(folder)

    shown = run("explain 'a gripping film, yet dull' --model model --target positive")
    assert shown.exit_code == 0, shown.output
    assert "why positive?" in shown.stdout
    assert "gripping" in shown.stdout

    compared = run("compare 'a gripping film' --model model --html c.html")
    assert compared.exit_code == 0, compared.output
    assert "rollout" in (tmp_path / "c.html").read_text("utf-8")

    long = run(f"explain '{'film ' * 40}' --model model")
    assert long.exit_code == 2
    assert "42 tokens" in long.stderr
    assert "--truncation" in long.stderr

    # Nothing went past the command's own streams, where only chatter of others would.
    assert capfd.readouterr() == ("", "")


HOSTILE = "a\x1b]0;title\x07b\x9b31mc\u202ed"


@pytest.mark.parametrize("which", ["stdout_console", "stderr_console"])
@pytest.mark.parametrize("kind", ["string", "text", "table", "out", "markdown"])
def test_text_of_others_cannot_steer_the_terminal(
    which: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.markdown import Markdown
    from rich.table import Table
    from rich.text import Text

    made = getattr(console, which)()
    made.width = 60
    if kind == "out":
        made.out(HOSTILE)
    elif kind == "table":
        table = Table(HOSTILE, title=HOSTILE)
        table.add_row(HOSTILE)
        made.print(table)
    else:
        made.print({"string": HOSTILE, "text": Text(HOSTILE), "markdown": Markdown(HOSTILE)}[kind])
    printed = "".join(capsys.readouterr())
    assert "a" in printed
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed)


def test_colours_of_our_own_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console
    from rich.text import Text

    made = console._safe(Console(force_terminal=True, color_system="standard", width=40))
    made.print(Text.assemble(("red", "red"), "\n", ("x\x1by", "green"), "\tz"))
    printed = capsys.readouterr().out
    assert "\x1b[31mred" in printed
    assert "x\ufffdy" in printed
    assert printed.count("\n") == 2
