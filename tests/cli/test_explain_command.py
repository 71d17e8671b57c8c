"""`whyformer explain`: what it reads, asks, shows and writes."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import whyformer
from whyformer.attribution import Reason
from whyformer.errors import ConservationWarning, InputError

Run = Callable[..., Any]


def refused(result: Any, *pieces: str) -> None:
    """The command ended with 2 and one line of error that says all the pieces."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().split("\n")
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    for piece in pieces:
        assert piece in lines[0]


def test_a_text_is_explained_and_shown(run: Run, fake_explain: Any) -> None:
    result = run("explain 'a gripping film'")
    assert result.exit_code == 0
    assert fake_explain.inputs == "a gripping film"
    assert fake_explain.keywords == {
        "method": "auto",
        "target": None,
        "truncation": False,
        "deciding": None,
    }
    for piece in ("positive", "+2.00", "good(+0.750)", "auto", "model its name"):
        assert piece in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("line", ["explain", "explain -"])
def test_stdin_is_read(run: Run, fake_explain: Any, line: str) -> None:
    assert run(line, "from a pipe\n").exit_code == 0
    assert fake_explain.inputs == "from a pipe"


def test_an_image_may_come_through_stdin(run: Run, fake_explain: Any) -> None:
    buffer = BytesIO()
    Image.new("L", (4, 3)).save(buffer, "PNG")
    assert run("explain -", buffer.getvalue()).exit_code == 0
    assert fake_explain.inputs.size == (4, 3)


def test_without_input_a_terminal_is_not_waited_for(
    run: Run, fake_explain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyformer.cli.arguments.sys", _Terminal)
    refused(run("explain"), "nothing to explain", "whyformer explain 'a gripping film'")


class _Terminal:
    class stdin:  # noqa: N801
        @staticmethod
        def isatty() -> bool:
            return True


def test_a_text_file_is_one_text(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    (tmp_path / "review.txt").write_text("one line\nand another\n", encoding="utf-8")
    assert run("explain review.txt").exit_code == 0
    assert fake_explain.inputs == "one line\nand another"


def test_an_image_file_is_an_image_whatever_its_name(
    run: Run, fake_explain: Any, tmp_path: Path
) -> None:
    for name in ("digit.png", "digit"):
        Image.new("L", (4, 4)).save(tmp_path / name, "PNG")
        assert run(f"explain {name}").exit_code == 0
        assert fake_explain.inputs == Path(name)


def test_a_broken_image_is_left_for_explain_to_refuse(
    run: Run, fake_explain: Any, tmp_path: Path
) -> None:
    (tmp_path / "digit.png").write_text("not an image", encoding="utf-8")
    run("explain digit.png")
    assert fake_explain.inputs == Path("digit.png")


@pytest.mark.parametrize("text", ["x" * 100_000, "and/or", "what? nope.png", "one.two", "a\0b"])
def test_text_that_is_no_path_is_text(run: Run, fake_explain: Any, text: str) -> None:
    assert run(f"explain {text!r}" if "\0" not in text else "explain -", text).exit_code == 0
    assert fake_explain.inputs == text


@pytest.mark.parametrize("name", ["nope.txt", "folder/nope.png", "NOPE.JPG"])
def test_a_missing_file_is_not_taken_for_text(run: Run, fake_explain: Any, name: str) -> None:
    refused(run(f"explain {name}"), f"no file '{name}'", "pipe it in")
    assert not fake_explain.calls


def test_a_folder_is_refused(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    refused(run("explain ./images"), "is a folder")
    assert run("explain images").exit_code == 0  # a word that happens to be a folder's name


def test_a_file_that_is_neither_is_refused(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"ok\xff\xfe")
    refused(run("explain data.bin"), "'data.bin'", "neither an image nor UTF-8 text", "byte 2")


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("1", 1),
        ("-1", -1),
        ("positive", "positive"),
        ("'very good'", "very good"),
        ("1>0", whyformer.contrast(1, 0)),
        ("'positive > negative'", whyformer.contrast("positive", "negative")),
    ],
)
def test_targets(run: Run, fake_explain: Any, typed: str, wanted: Any) -> None:
    assert run(f"explain film --target={typed}").exit_code == 0
    assert fake_explain.keywords["target"] == wanted


@pytest.mark.parametrize("typed", ["'a>'", "'>b'", "'>'"])
def test_half_a_contrast_is_refused(run: Run, fake_explain: Any, typed: str) -> None:
    refused(run(f"explain film --target={typed}"), "lacks a side", "'a>b'")


@pytest.mark.parametrize(
    ("typed", "key", "value"),
    [
        ("start_layer=2", "start_layer", 2),
        ("start-layer=-1", "start_layer", -1),
        ("steps=1e2", "steps", 100.0),
        ("normalize=true", "normalize", True),
        ("normalize=False", "normalize", False),
        ("baseline=null", "baseline", None),
        ("activations=identity", "activations", "identity"),
        ("'name=a=b'", "name", "a=b"),
        ("'name=\"7\"'", "name", "7"),
        ("'name=[1]'", "name", "[1]"),
    ],
)
def test_options(run: Run, fake_explain: Any, typed: str, key: str, value: Any) -> None:
    assert run(f"explain film --option {typed} -o seed=3").exit_code == 0
    assert fake_explain.keywords[key] == value
    assert type(fake_explain.keywords[key]) is type(value)
    assert fake_explain.keywords["seed"] == 3


@pytest.mark.parametrize("typed", ["identity", "=1"])
def test_an_option_without_a_key_or_value_is_refused(
    run: Run, fake_explain: Any, typed: str
) -> None:
    refused(run(f"explain film --option {typed}"), repr(typed), "key=value")


def test_the_rest_is_passed_on(run: Run, fake_explain: Any, loads: list[Any]) -> None:
    line = "explain film --model here -M gae --truncation --at embeddings --deciding 2"
    assert run(line).exit_code == 0
    (inputs, model, keywords) = fake_explain.calls[-1]
    assert (inputs, model.module, model.processor) == ("film", "module", "processor")
    assert loads == ["here"]
    assert keywords == {
        "method": "gae",
        "target": None,
        "truncation": True,
        "deciding": 2,
        "at": "embeddings",
    }
    run("explain film --deciding last")
    assert fake_explain.keywords["deciding"] == "last"


def test_files_are_written_and_told_about(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    names = {"html": "w.html", "json": "w.json", "png": "w.png", "save": "w.safetensors"}
    options = " ".join(f"--{option} {name}" for option, name in names.items())
    result = run(f"explain film --quiet {options}")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert [line.split() for line in result.stderr.splitlines()] == [
        ["wrote", name] for name in names.values()
    ]
    assert (tmp_path / "w.html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "w.json").read_text("utf-8"))["labels"] == ["positive"]
    assert whyformer.load(tmp_path / "w.safetensors").labels == ("positive",)


@pytest.mark.parametrize("option", ["html", "png", "json", "save"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    run: Run, fake_explain: Any, tmp_path: Path, option: str
) -> None:
    refused(run(f"explain film --{option} no/such/file"), f"--{option}", "no folder 'no/such'")
    refused(run(f"explain film --{option} ."), f"--{option}", "is a folder")
    assert not fake_explain.calls


def test_a_locked_folder_is_refused(
    run: Run, fake_explain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyformer.cli.files.os.access", lambda *_: False)
    refused(run("explain film --html w.html"), "--html 'w.html'", "you may not write to the folder")


def test_a_write_that_fails_later_is_an_error_too(
    run: Run, fake_explain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    refused(run("explain film --quiet --html w.html"), "--html 'w.html'", "No space left on device")


def test_an_error_is_one_line_in_the_terms_of_the_command_line(run: Run, fake_explain: Any) -> None:
    def refuse(method: str) -> None:
        raise InputError(
            "[red]this[/red]\n  is too long", argument="truncation", remedy="Pass truncation=True"
        )

    fake_explain.instead = refuse
    result = run("explain film")
    refused(result, "[red]this[/red] is too long. Pass --truncation, or shorten the text.")
    assert "=" not in result.stderr


def test_a_mistake_of_ours_is_not_hidden(run: Run, fake_explain: Any) -> None:
    def fail(method: str) -> None:
        raise ZeroDivisionError("ours")

    fake_explain.instead = fail
    assert isinstance(run("explain film").exception, ZeroDivisionError)


def test_ctrl_c_ends_with_130(run: Run, fake_explain: Any) -> None:
    def interrupt(method: str) -> None:
        raise KeyboardInterrupt

    fake_explain.instead = interrupt
    result = run("explain film")
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_broken_conservation_becomes_a_note_and_other_warnings_nothing(
    run: Run, fake_explain: Any
) -> None:
    def warn(method: str) -> None:
        warnings.warn("gelu lost a share", ConservationWarning, stacklevel=1)
        warnings.warn("gelu lost a share", ConservationWarning, stacklevel=1)
        warnings.warn("torch has an opinion", UserWarning, stacklevel=1)

    fake_explain.instead = warn
    result = run("explain film --quiet")
    assert result.exit_code == 0
    assert result.stderr == "note: gelu lost a share\n"
    # The printed result has a line about it: not twice.
    assert run("explain film").stderr == ""


def test_strict_refuses_a_doubtful_explanation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    doubt = (Reason("values", "warning", "All scores are 0.", ("text",)),)
    monkeypatch.setattr("whyformer.pipeline.trust.value_reasons", lambda attribution: doubt)
    plain = run("explain film")
    assert plain.exit_code == 0
    assert "Trust: doubtful. All scores are 0." in plain.stdout
    assert plain.stderr == ""
    for command in ("explain film --strict", "compare film --methods gae --strict"):
        result = run(command)
        assert result.exit_code != 0
        assert "error: " in result.stderr
        assert "All scores are 0. Choose another --method, or leave out --strict" in result.stderr


def test_no_escape_codes_where_nobody_looks(run: Run, fake_explain: Any) -> None:
    result = run("explain film")
    assert "\x1b" not in result.stdout + result.stderr


def test_a_spinner_only_for_eyes(
    run: Run, fake_explain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "explaining" not in run("explain film").stderr
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    if "explaining" not in run("explain film").stderr:
        pytest.skip("this version of rich cannot pretend to be a terminal")


@pytest.mark.slow
def test_files_are_written_although_the_reader_of_the_output_leaves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "whyformer", "explain", "a fine film", "--png", "why.png"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert (tmp_path / "why.png").stat().st_size > 0
