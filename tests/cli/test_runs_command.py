"""`whyformer runs`: what is listed, shown, resumed, merged and compared."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.making import classifier, plan, save, sentences
from whyformer.cli.started_by import with_options
from whyformer.evaluation.evaluate import COMMAND, evaluate
from whyformer.evaluation.results import Results
from whyformer.evaluation.store import PARTS, Store

Run = Callable[..., Any]


@pytest.fixture
def two_runs() -> tuple[Path, Path]:
    """Two runs on samples that overlap."""
    places = Path("runs/one"), Path("runs/other")
    samples = sentences(6)
    for place, some in zip(places, (samples[:4], samples[2:]), strict=True):
        evaluate(classifier(), some, plan(), place, report=False)
    Path("runs/nothing").mkdir()
    return places


def test_list_and_show(run: Run, two_runs: tuple[Path, Path]) -> None:
    found = run("runs list")
    assert found.exit_code == 0, found.output
    assert [line.split()[0] for line in found.stdout.splitlines()[1:]] == ["runs/one", "runs/other"]
    assert "finished" in found.stdout
    (shard,) = (two_runs[0] / PARTS).iterdir()
    shard.write_bytes(b"damaged")
    found = run("runs show runs/one")
    assert f"does not count: {PARTS}/{shard.name}" in found.stdout
    assert "auac" in found.stdout


def test_merge_and_compare(run: Run, two_runs: tuple[Path, Path]) -> None:
    found = run("runs merge runs/one runs/other --out runs/both")
    assert found.exit_code == 0, found.output
    assert "runs/other: 4 units added, 4 were there already" in found.stderr
    assert len(Store("runs/both").done) == 6 * 2
    whole = evaluate(classifier(), sentences(6), plan(), "runs/whole", report=False)
    merged = evaluate(classifier(), sentences(6), plan(), "runs/both", report=False)
    assert merged.rows == whole.rows
    found = run("runs compare runs/one runs/whole")
    assert found.stdout.count("identical") == 2


def test_resume(run: Run) -> None:
    model = save(classifier(), Path("model"))
    lines = "".join(f"{one.inputs},{one.label}\n" for one in sentences(4))
    Path("my.csv").write_text(f"text,label\n{lines}")
    command = (
        f"whyformer evaluate --model {model} --data csv:my.csv --methods gae --metrics auac"
        " --out elsewhere --workers 4"
    )
    Path("runs/cut").mkdir(parents=True)
    Path("runs/cut", COMMAND).write_text(json.dumps({"command": command}))
    found = run("runs resume runs/cut --workers 1")
    assert found.exit_code == 0, found.output
    assert len(Results.read("runs/cut").rows) == 4


def test_options_replace_those_of_the_command() -> None:
    words = shlex.split("evaluate --workers=3 -o there --model sst2 --out 'one two'")
    found = with_options(words, {"--out": "here", "--workers": "2"})
    assert found == shlex.split("evaluate --model sst2 --out here --workers 2")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("runs delete", "runs 'delete' is unknown"),
        ("runs show", "takes 1 run, and 0 were named"),
        ("runs compare runs/one", "takes 2 runs, and 1 were named"),
        ("runs show nowhere", "is not a run of whyformer evaluate"),
        ("runs resume nowhere", "is not a run of whyformer evaluate"),
        ("runs merge runs/one", "at least two runs and --out"),
        ("runs list --workers 2", "are for runs resume"),
        ("runs list --out x", "--out is for runs merge"),
        ("evaluate --engine dask", "'dask' is unknown"),
        ("evaluate --workers 0", "workers=0 is not"),
        ("evaluate --address x:1", "needs the engine ray"),
        ("evaluate --engine ray --runtime-env nonsense", "--runtime-env is not JSON"),
        ("evaluate --engine ray --runtime-env [1]", "is a list, expected a mapping"),
    ],
)
def test_mistakes_are_one_line(run: Run, line: str, message: str) -> None:
    found = run(line)
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.split())
