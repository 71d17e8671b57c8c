"""Command lines of random words."""

from __future__ import annotations

import json
import random
from pathlib import Path

from typer.testing import CliRunner

from tests.fuzz.mutate import TEXTS
from tests.fuzz.surface import ForeignError
from whyformer.cli.app import application

FILE = "words.json"
WORDS = (
    "explain", "compare", "methods", "models", "evaluate", "audit", "recommend", "--model", "sst2",
    "--method", "gae", "--target", "1", "--json", "--html", "out.html", "--input", "x.csv",
    "--text", "--help", "-", "--", "--batch-size", "-1", "0", "1e9", "~", ".", "..", "/dev/null",
    "no such", "--out", "--config", "--chat", "--image", "--span", "0:1", "--csv", *TEXTS,
)  # fmt: skip
# Commands that would really run a model for long are left to their own tests.
CHEAP = ("methods", "models", "families", "metrics", "datasets", "explain", "compare", "runs")


def make(draw: random.Random, folder: Path) -> None:
    """A command and up to five words."""
    words = [draw.choice(CHEAP)]
    for _ in range(draw.randint(0, 5)):
        word = draw.choice(WORDS).encode("utf-8", "replace").decode()
        words.append(word.replace("\0", "?"))  # no shell can pass it
    (folder / FILE).write_text(json.dumps(words), "utf-8")


def read(folder: Path) -> None:
    """Run the command in this process."""
    words = json.loads((folder / FILE).read_text("utf-8"))
    ran = CliRunner().invoke(application(), words, input="")
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ForeignError(repr(ran.exception)) from ran.exception
