"""Typical mistakes of newcomers: each ends in one sentence with the input and the remedy.

A list of data. In Python a mistake raises one of whyformer's own errors, on the command line it
ends with exit code 2 and one line on stderr, and on the page the same error gives one sentence in
the page's terms. Never a traceback.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import whyformer as wf
from whyformer.cli.app import application
from whyformer.errors import WhyformerError
from whyformer.explorer.error_text import error_text

HI = [{"role": "user", "content": "hi"}]
LINEAR = nn.Linear(4, 2)


def untokenized() -> nn.Module:
    """A model that the user made, without a tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 1}
    return BertForSequenceClassification(BertConfig(**sizes, **layers))


# What the user wrote, what the error names, and a piece of the remedy.
Mistake = tuple[Callable[[], Any], str, str]
PYTHON: dict[str, Mistake] = {
    # inputs
    "empty text": (lambda: wf.explain(""), "the text is empty", "at least one word"),
    "white space": (lambda: wf.explain("  "), "only white space", "at least one word"),
    "empty list": (lambda: wf.explain([]), "an empty list", "Pass a string"),
    "None": (lambda: wf.explain(None), "of type NoneType", "Pass a string"),
    "a number": (lambda: wf.explain(42), "of type int", "Pass a string"),
    "bytes": (lambda: wf.explain(b"good"), "of type bytes", "Pass a string"),
    "a set": (lambda: wf.explain({"good"}), "of type set", "Pass a string"),
    "nested lists": (lambda: wf.explain([["a", "b"], ["c"]]), "element 1", "Pass a string"),
    "None in a list": (lambda: wf.explain(["good", None]), "element 1", "Pass a string"),
    "empty text in a list": (lambda: wf.explain(["good", ""]), "at index 1", "at least one word"),
    "texts and images": (
        lambda: wf.explain(["good", Path("red.png")]),
        "image and text",
        "separate calls",
    ),
    "no such image": (lambda: wf.explain("nowhere.png"), "'nowhere.png'", "Check the path"),
    "a broken image": (lambda: wf.explain(Path("broken.png")), "'broken.png'", "Pass a PNG"),
    "text for an image model": (
        lambda: wf.explain("a good film", "mnist"),
        "'a good film'",
        "a model that reads text",
    ),
    "image for a text model": (
        lambda: wf.explain(Path("red.png"), "sst2"),
        "reads text",
        "another model=",
    ),
    "text too long": (lambda: wf.explain("film " * 600), "602 tokens", "truncation=True"),
    "a text of one token": (
        lambda: wf.explain("film", method="occlusion"),
        "1 token that can be removed",
        "longer input",
    ),
    "more places than images": (
        lambda: wf.explain({"text": "<image> <image> what?", "image": "red.png"}, "vlm_shapes"),
        "2 places for images",
        "one image for each place",
    ),
    "a chat without a template": (lambda: wf.explain(HI, "sst2"), "no chat template", "one text"),
    "a message without a role": (
        lambda: wf.explain([{"content": "hi"}], "reader"),
        "message 0 has no 'role'",
        '"role": "user"',
    ),
    # models
    "model misspelt": (lambda: wf.explain("good", "ssst2"), "'ssst2'", "Did you mean 'sst2'?"),
    "no such folder": (lambda: wf.explain("good", "./here"), "'./here'", "Bundled: "),
    "a number as model": (lambda: wf.explain("good", 42), "type int", "Pass an nn.Module"),
    "a class as model": (lambda: wf.explain("good", nn.Linear), "type type", "Pass an nn.Module"),
    "folder without weights": (lambda: wf.explain("good", "bare"), "'bare'", "save_pretrained"),
    "pickled weights": (
        lambda: wf.explain("good", "pickled"),
        "'pickled'",
        "convert them",
    ),
    "no tokenizer": (lambda: wf.explain("good", untokenized()), "a tokenizer", "processor="),
    "no tokenizer folder": (
        lambda: wf.explain("good", tokenizer="nowhere"),
        "'nowhere'",
        "Pass such a folder",
    ),
    "no transformer": (lambda: wf.explain(torch.ones(1, 4), LINEAR), "Linear", "blocks="),
    "no GPU": (lambda: wf.explain("good", device="cuda"), "device='cuda'", "'cpu'"),
    "device misspelt": (lambda: wf.explain("good", device="gpu0"), "device='gpu0'", "'cpu'"),
    "dtype misspelt": (lambda: wf.explain("good", dtype="flaot16"), "'flaot16'", "torch.float16"),
    "dtype of integers": (lambda: wf.explain("good", dtype=torch.int64), "int64", "torch.float16"),
    "a module with a dtype": (
        lambda: wf.explain(torch.ones(1, 4), LINEAR, dtype="float64"),
        "Linear",
        "model.to(",
    ),
    # methods and options
    "method misspelt": (
        lambda: wf.explain("good", method="blnd"),
        "'blnd'",
        "Did you mean 'blend'?",
    ),
    "option misspelt": (
        lambda: wf.explain("good", method="gae", gradeint="plain"),
        "'gradeint'",
        "Did you mean 'gradient'?",
    ),
    "option of another method": (
        lambda: wf.explain("good", method="gae", steps=3),
        "'steps'",
        "Its options: ",
    ),
    "value of an option": (
        lambda: wf.explain("good", method="gae", gradient="smooth"),
        "'smooth'",
        "'plain', 'balanced'",
    ),
    "argument misspelt": (lambda: wf.explain("good", methd="gae"), "'methd'", "whyformer.methods"),
    "keep misspelt": (lambda: wf.explain("good", keep="atention"), "'atention'", "'attention'"),
    "memory unknown": (lambda: wf.explain("good", memory="small"), "'small'", "'streamed'"),
    "no batch": (
        lambda: list(wf.explain(iter(["good"]), batch_size=0)),
        "batch_size=0",
        "at least 1",
    ),
    "on_error unknown": (
        lambda: list(wf.explain(iter(["good"]), on_error="ignore")),
        "'ignore'",
        "'raise' or 'skip'",
    ),
    # targets
    "no such class": (lambda: wf.explain("good", target=7), "no class 7", "Pass one of these"),
    "class from the end": (lambda: wf.explain("good", target=-1), "no class -1", "Pass one of"),
    "label misspelt": (
        lambda: wf.explain("good", target="postive"),
        "'postive'",
        "Did you mean 'positive'?",
    ),
    "a truth value": (lambda: wf.explain("good", target=True), "True", "1 if that class"),
    "a float": (lambda: wf.explain("good", target=0.5), "0.5", "Pass an index"),
    "too many targets": (
        lambda: wf.explain(["good", "bad"], target=[0, 1, 1]),
        "3 targets",
        "one per sample",
    ),
    "a query of a classifier": (
        lambda: wf.explain("good", target=wf.query(1)),
        "an object query",
        "Pass an index",
    ),
    "a span of a classifier": (
        lambda: wf.explain("good", target=wf.span(1, 2)),
        "Span(start=1, end=2)",
        "Pass an index",
    ),
    "half a span": (lambda: wf.span(1), "from 1 to None", "wf.span(start, end)"),
    "length of no answer": (
        lambda: wf.explain("good", max_new_tokens=5),
        "max_new_tokens=5",
        "Leave out",
    ),
    "rows unknown": (lambda: wf.explain("good", each="word"), "'word'", "'sentence'"),
    "an empty answer": (
        lambda: wf.explain("where?", "reader", target=""),
        "an empty text",
        "at least one character",
    ),
    # results
    "no such file": (lambda: wf.load("nowhere.st"), "'nowhere.st'", "Check the path"),
    "another file": (lambda: wf.load("red.png"), "'red.png'", "Attribution.save"),
    "words of two": (lambda: wf.explain(["good", "bad"]).words(), "has 2", "a[0].words()"),
    "no such folder for a picture": (
        lambda: wf.explain("good").to_png("no/x.png"),
        "'no/x.png'",
        "Create the folder",
    ),
    "view unknown": (lambda: wf.explain("good").render("gif"), "'gif'", "Choose one of"),
    "stream unknown": (lambda: wf.explain("good").words("image"), "'image'", "one of text"),
    "one method as text": (
        lambda: wf.compare("good", methods="gae"),  # type: ignore[arg-type]
        "are lists",
        "methods=['gae']",
    ),
    "sizes that mean nothing": (
        lambda: wf.compare("good", methods=["gae"], scale="shared"),
        "'gae'",
        "scale='own'",
    ),
}

COMMANDS: dict[str, tuple[str, str]] = {
    # a text, an image, a chat
    "explain nowhere.txt": ("'nowhere.txt'", "Check the path"),
    "explain broken.png": ("'broken.png'", "Pass a PNG"),
    "explain empty.txt": ("the text is empty", "at least one word"),
    "explain a gripping film": ("gripping film", "into quotes"),
    "explain red.png --model sst2": ("sst2 reads text", "another --model"),
    "explain 'a film' --model mnist": ("mnist reads images", "another --model"),
    "explain 'what?' --image nowhere.png": ("'nowhere.png'", "Check the path"),
    "explain 'what?' --image red.png --model sst2": ("sst2 reads text", "another --model"),
    "explain --chat nowhere.json --model reader": ("'nowhere.json'", "--chat"),
    "explain --chat list.json --model reader": ("'list.json'", '"role"'),
    "explain --chat chat.json --model sst2": ("no chat template", "one text"),
    # models
    "explain 'a film' --model ssst2": ("'ssst2'", "Did you mean 'sst2'?"),
    "explain 'a film' --model ./here": ("'./here'", "--model"),
    "explain 'a film' --model bare": ("'bare'", "save_pretrained"),
    "explain 'a film' --model pickled": ("'pickled'", "convert them"),
    "explain 'a film' --model wordless": ("a tokenizer", "--model folder"),
    "explain 'a film' --model sst2 --model mnist": ("2 times", "whyformer compare"),
    "explain 'a film' --device cuda": ("'cuda'", "--device cpu"),
    "explain 'a film' --dtype flaot16": ("'flaot16'", "--dtype float32"),
    # options
    "explian 'a film'": ("'explian'", "Did you mean 'explain'?"),
    "explain 'a film' --moddel sst2": ("--moddel", "--model"),
    "explain 'a film' --method blnd": ("'blnd'", "whyformer methods"),
    "explain 'a film' --option steps": ("'steps'", "--option start_layer=1"),
    "explain 'a film' --method gae --option steps=3": ("'steps'", "Its options"),
    "explain 'a film' --max-new-tokens x": ("'x'", "explain --help"),
    "explain 'a film' --max-new-tokens 5": ("max_new_tokens=5", "--max-new-tokens"),
    "explain 'a film' --limit 5": ("--limit", "--input"),
    # targets
    "explain 'a film' --target postive": ("'postive'", "--target"),
    "explain 'a film' --target 7": ("no class 7", "--target"),
    "explain 'a film' --target 'positive>'": ("'positive>'", "--target"),
    "explain 'a film' --query 3": ("--query 3", "detr_shapes"),
    "explain 'a film' --token film --span film": ("--token and --span", "only one"),
    # files
    "explain 'a film' --png out.gif": ("'out.gif'", "ends in .png"),
    "explain 'a film' --png no/out.png": ("'no/out.png'", "Create the folder"),
    "explain 'a film' --png .": ("'.' is a folder", "Name a file"),
    # many inputs
    "explain --input nowhere.csv --out s.jsonl": ("'nowhere.csv'", "Check the path"),
    "explain --input reviews.csv": ("--input", "--out scores.parquet"),
    "explain --input reviews.csv --out s.xlsx": ("'s.xlsx'", ".parquet or .jsonl"),
    "explain --input reviews.csv --out s.jsonl --column txet": ("'txet'", "--column"),
    "explain --input reviews.csv --out s.jsonl --target-column lable": ("'lable'", "--target-col"),
    "explain --input reviews.csv --out s.jsonl --limit -3": ("--limit -3", "from 1"),
    "explain --input reviews.csv --out s.jsonl --split dev": ("'dev'", "Leave out --split"),
    "explain --input blank.csv --out s.jsonl": ("blank.csv is empty", "names the columns"),
    # the other commands
    "compare 'a film' --methods gae,blnd": ("'blnd'", "Did you mean 'blend'?"),
    "compare 'a film' --methods ,": ("--methods", "--methods blend,gae"),
    "compare 'a film' --scale big": ("'big'", "'own' or 'shared'"),
    "evaluate --data sst2": ("'sst2'", "sst2:PATH"),
    "evaluate --data sts2:.": ("'sts2'", "Did you mean 'sst2'?"),
    "evaluate --data sst2:nowhere": ("nowhere", "train.tsv"),
    "evaluate --data csv:reviews.csv --model sst2 --metrics acua": ("'acua'", "'auac'?"),
    "evaluate --data csv:reviews.csv,text=txet --model sst2": ("'txet'", "text=COLUMN"),
    "evaluate --data csv:plain.csv --model sst2 --target label --metrics auac -M random": (
        "has no label",
        "predicted class",
    ),
    "evaluate --data csv:reviews.csv --model sst2 --limit 0": ("--limit 0", "from 1"),
    "evaluate --model nowhere": ("'nowhere'", "--data"),
    "recommend --data nowhere.csv": ("nowhere.csv", "Pass the path"),
    "audit names --names nowhere.csv": ("'nowhere.csv'", "us_gender"),
    "audit nmaes": ("'nmaes'", "'names', 'terms'"),
    "audit terms": ("a dataset", "--data NAME:PATH"),
    "audit names --data csv:reviews.csv": ("--data", "audit terms"),
    "reproduce ali2023": ("'ali2023'", "Did you mean 'ali2022'?"),
    "methods gea": ("'gea'", "Did you mean 'gae'?"),
    "metrics acua": ("'acua'", "Did you mean 'auac'?"),
    "explore --port 99999": ("'99999'", "65535"),
}

# What can go wrong on the page, by its name above, and what its sentence says to do.
PAGE = {
    "empty text": "Change the text",
    "a broken image": "Change the text or the image",
    "text too long": "Shorten the text",
    "no such class": "Change the field Why",
    "label misspelt": "Change the field Why",
    "no tokenizer": "Choose another model",
    "no transformer": "Choose another model",
    "folder without weights": "Choose another model",
    "a text of one token": "Change the text",
    "length of no answer": "the field Longest answer",
    "method misspelt": "Choose one of",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with the files that the mistakes are made with."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (20, 20), "red").save("red.png")
    texts = {
        "broken.png": "no image",
        "empty.txt": "",
        "blank.csv": "",
        "reviews.csv": "text,label\na good film,positive\n",
        "plain.csv": "text\na good film\n",
        "chat.json": json.dumps(HI),
        "list.json": "[1, 2]",
    }
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    own = wf.models()["sst2"].folder
    for name in ("bare", "pickled", "wordless"):
        Path(name).mkdir()
        shutil.copy(own / "config.json", name)
    Path("pickled/pytorch_model.bin").write_bytes(b"")
    for weights in own.glob("*.safetensors"):
        Path("wordless", weights.name).symlink_to(weights)


def check_sentence(text: str, *pieces: str) -> None:
    """One line that says all the pieces."""
    assert "\n" not in text
    for piece in pieces:
        assert piece in text, text


def test_there_are_sixty_and_more() -> None:
    assert len(PYTHON) >= 60
    assert len(COMMANDS) >= 60


@pytest.mark.parametrize("name", PYTHON)
def test_in_python(name: str) -> None:
    act, culprit, remedy = PYTHON[name]
    with pytest.raises(WhyformerError) as caught:
        act()
    check_sentence(str(caught.value), culprit, remedy)


@pytest.mark.parametrize("line", COMMANDS)
def test_on_the_command_line(line: str) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(
        application(), shlex.split(line), input="", prog_name="whyformer"
    )
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)  # and no traceback
    assert result.stdout == ""
    *before, last = result.stderr.strip().split("\n")
    assert last.startswith("error: ")
    assert all(line.startswith("working: ") for line in before)  # progress
    check_sentence(last, *COMMANDS[line])


@pytest.mark.parametrize("name", PAGE)
def test_on_the_page(name: str) -> None:
    act, culprit, _ = PYTHON[name]
    with pytest.raises(WhyformerError) as caught:
        act()
    check_sentence(error_text(caught.value), culprit, PAGE[name])
