"""`whyformer evaluate`: what it measures, prints and writes, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

import whyformer
from tests.evaluation.making import classifier, save
from whyformer.batching.progress import Progress
from whyformer.cli.progress import progress_bar
from whyformer.evaluation.results import Results

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def calmer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing; transformers keeps its voice for the rest of the session."""
    monkeypatch.setattr("whyformer.cli.progress.silence_transformers", lambda: None)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny classifier, negative or positive, on disk."""
    return save(classifier(), tmp_path_factory.mktemp("model"))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Five labelled reviews."""
    rows = ("a good film,1", "not bad,1", "the plot is bad,0", "bad and not good,0", "good,1")
    (tmp_path / "my.csv").write_text("\n".join(["review,y", *rows]), encoding="utf-8")
    return tmp_path / "my.csv"


def line(folder: Path, more: str = "", data: str = "csv:my.csv,text=review,label=y") -> str:
    methods = "" if "-M" in more else "--methods random,gae"
    return f"evaluate --model {folder} --data {data} {methods} --out run {more}"


def refused(result: Any, *pieces: str) -> None:
    """The command ended with 2 and a last line of error that says all the pieces; no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    last = result.stderr.strip().split("\n")[-1]
    assert last.startswith("error: ")
    for piece in pieces:
        assert piece in last


# -- what comes out --------------------------------------------------------------------------------


def test_a_table_on_stdout_and_the_rest_on_stderr(run: Run, folder: Path, reviews: Path) -> None:
    result = run(line(folder, "--metrics auac,au_mse --target both --fill mask"))
    assert result.exit_code == 0, result.output
    for piece in ("random", "gae", "auac", "au_mse", "5 samples", "predicted", "Filled by 'mask'"):
        assert piece in result.stdout, result.stdout
    for piece in ("working: ...", "working: 0 %", "working: 100 %", "wrote run/report.html"):
        assert piece in result.stderr
    assert "working" not in result.stdout
    assert "wrote" not in result.stdout
    found = Results.read(reviews.parent / "run")
    assert len(found.rows) == 5 * 2 * 2 * 2
    settings = json.loads((reviews.parent / "run" / "settings.json").read_text("utf-8"))
    assert settings["data"]["source"] == "csv:my.csv,text=review,label=y"
    assert settings["fill"] == "mask"
    assert settings["model"]["fingerprint"]
    assert {p.name for p in (reviews.parent / "run").iterdir()} == {
        "command.json",
        "ledger",
        "parts",
        "report.html",
        "results.parquet",
        "settings.json",
        "table.md",
    }


def test_quiet(run: Run, folder: Path, reviews: Path) -> None:
    result = run(line(folder, "--metrics sufficiency --quiet"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert (reviews.parent / "run" / "table.md").is_file()


def test_metrics_that_fit_are_the_default(run: Run, folder: Path, reviews: Path) -> None:
    assert run(line(folder, "--quiet")).exit_code == 0
    names = Results.read(reviews.parent / "run").metrics
    assert {"auac", "au_mse", "sufficiency"} <= set(names)
    assert "conservation" not in names  # neither method's scores have a sign
    assert not {"token_f1", "segmentation", "randomisation"} & set(names)


def test_a_rerun_continues_and_says_the_same(run: Run, folder: Path, reviews: Path) -> None:
    command = line(folder, "--metrics auac --limit 3")
    first = run(command)
    place = reviews.parent / "run"
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    second = run(command)
    assert first.stdout == second.stdout
    assert {p: p.read_bytes() for p in place.rglob("*") if p.is_file()} == before


def test_options_of_methods_and_metrics(run: Run, folder: Path, reviews: Path) -> None:
    more = (
        "--metrics auac --set gae.start_layer=1 --set auac.steps=0,0.5,1"
        " --set auac.special=remove --set random.seed=9 --seed 4 -q"
    )
    result = run(line(folder, more))
    assert result.exit_code == 0, result.output
    settings = json.loads((reviews.parent / "run" / "settings.json").read_text("utf-8"))
    assert settings["methods"]["gae"]["options"] == {"start_layer": 1}
    assert settings["methods"]["random"]["options"] == {"seed": 9}
    assert settings["metrics"]["auac"]["options"] == {"special": "remove", "steps": [0, 0.5, 1]}
    assert settings["seed"] == 4
    assert len(Results.read(reviews.parent / "run").rows[0]["curve"]) == 3


def test_where_results_go_when_nobody_says(run: Run, folder: Path, reviews: Path) -> None:
    command = line(folder, "--metrics sufficiency -q").replace("--out run", "")
    assert run(command).exit_code == 0
    assert (reviews.parent / "runs" / f"{folder.name}-csv" / "report.html").is_file()


def test_labels_by_name_and_rows_left_out(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text("text,label\na good film,Positive\n ,negative\nbad,NEGATIVE\n")
    command = line(folder, "--metrics auac --target label -q", "csv:my.csv")
    refused(run(command), "my.csv, line 3", "is empty")
    assert run(f"{command} --skip-errors").exit_code == 0
    found = Results.read(tmp_path / "run")
    assert [row["explained"] for row in found.rows[::2]] == [1, 0]
    assert len(found.settings["data"]["skipped"]) == 1


def test_long_texts(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(f"text\na good film\n{'good film ' * 40}\n")
    command = line(folder, "--metrics auac -q", "csv:my.csv")
    result = run(command)
    assert result.exit_code == 0
    for piece in ("1 of 2 samples could not be evaluated", "82 tokens, the model takes 40"):
        assert piece in result.stderr
    assert len(Results.read(tmp_path / "run").failures) == 1
    assert run(f"{command} --truncation").exit_code == 0
    assert Results.read(tmp_path / "run").settings["truncation"] is True


# -- while it runs ---------------------------------------------------------------------------------


def test_a_bar_with_the_time_left_where_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr("whyformer.cli.progress.stderr_console", lambda: terminal)
    with progress_bar() as report:
        report(Progress("reading samples", 0, 0))
        report(Progress("gae [red]: x", 1, 4))
        report(Progress("gae [red]: x", 3, 4))
        time.sleep(0.2)
    shown = screen.getvalue()
    assert "reading samples" in shown
    assert "gae [red]: x" in shown  # names are no markup
    assert "3/4" in shown
    assert re.search(r"\d:\d\d:\d\d|-:--:--", shown)


def test_a_line_for_every_tenth_where_nobody_does(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as report:
        report(Progress("reading samples", 0, 0))
        for done in range(101):
            report(Progress("gae", done, 100))
            report(Progress("gae", done, 100))
    message = capsys.readouterr()
    assert message.out == ""
    assert message.err.splitlines() == [
        "working: ...",
        *(f"working: {tenth} %" for tenth in range(0, 101, 10)),
    ]


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "pieces"),
    [
        ("--metrics aucc", ("no metric called 'aucc'", "Did you mean 'auac'")),
        ("--metrics auac -M gea", ("no method called 'gea'", "Did you mean 'gae'")),
        ("--metrics ,", ("--metrics is empty",)),
        ("--metrics auac -M ' '", ("--methods is empty",)),
        ("--metrics auac --fill erase", ("fill='erase'", "Choose one of drop, mask")),
        ("--metrics conservation --fill erase", ("fill='erase'", "Choose one of drop, mask")),
        ("--metrics auac --fill blur", ("fill='blur' is not for stream 'text'", "drop, mask")),
        ("--target true", ("--target 'true'", "predicted, label, both")),
        ("--set gae", ("--set 'gae' is not of the form name.key=value",)),
        ("--set gae.start_layer", ("is not of the form name.key=value",)),
        ("--set .x=1", ("is not of the form name.key=value",)),
        ("--set gae.=1", ("is not of the form name.key=value",)),
        ("--set rollout.x=1 --metrics auac", ("'rollout', which is not evaluated",)),
        ("--set gae.start=1 --metrics auac", ("gae", "start", "start_layer")),
        ("--set auac.steps=0.5 --metrics auac", ("steps=0.5", "a tuple of floats")),
        ("--set auac.steps=a,b --metrics auac", ("expected a tuple of floats",)),
        ("--set auac.steps=1,0 --metrics auac", ("rising shares",)),
        ("--set auac.special=no --metrics auac", ("special='no'", "expected one of")),
        ("--set auac.stream=image --metrics auac", ("no stream 'image'", "text")),
        ("--metrics token_f1", ("has no marked words",)),
        ("--metrics segmentation", ("has no mask of the object",)),
        ("--limit 0", ("limit",)),
        ("--limit -3", ("limit",)),
    ],
)
def test_refusals(
    run: Run, folder: Path, reviews: Path, more: str, pieces: tuple[str, ...]
) -> None:
    refused(run(line(folder, more)), *pieces)


@pytest.mark.parametrize(
    ("command", "pieces"),
    [
        ("evaluate --data sst2:nowhere", ("nowhere",)),
        ("evaluate --data nonsense:x", ("no dataset called 'nonsense'",)),
        ("evaluate --data my.csv", ("names no dataset", "NAME:PATH")),
        ("evaluate --data csv:my.csv,text=review", ("no bundled model was trained on csv",)),
        ("evaluate --data csv:my.csv,text=reviews", ("no column 'reviews'", "review")),
        ("evaluate --model somewhere/else", ("comes without samples", "--data sst2:PATH")),
        ("evaluate --model sst2 --limit 0", ("--limit 0",)),
        ("evaluate --model sst2 --target label --metrics auac", ("sst2/", "has no label")),
    ],
)
def test_more_refusals(run: Run, reviews: Path, command: str, pieces: tuple[str, ...]) -> None:
    refused(run(command), *pieces)


def test_a_label_outside_the_classes(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text("text,label\na good film,1\nbad,2\n")
    result = run(line(folder, "--metrics auac", "csv:my.csv"))
    refused(result, "sample 'all/1' is labelled 2", "2 classes, 0 to 1: negative, positive")
    assert "0 %" not in result.stderr  # before anything was done


def test_nowhere_to_write(run: Run, folder: Path, reviews: Path) -> None:
    refused(run(line(folder, "--metrics auac").replace("--out run", "--out my.csv")), "cannot be")
    refused(
        run(line(folder, "--metrics auac").replace("--out run", "--out my.csv/run")),
        "'my.csv/run' cannot be created",
    )


def test_a_damaged_part(run: Run, folder: Path, reviews: Path) -> None:
    command = line(folder, "--metrics auac -q")
    assert run(command).exit_code == 0
    before = (reviews.parent / "run" / "results.parquet").read_bytes()
    for part in (reviews.parent / "run" / "parts").iterdir():
        part.write_bytes(b"")
    assert run(command).exit_code == 0
    assert (reviews.parent / "run" / "results.parquet").read_bytes() == before


def test_a_broken_image(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "data" / "7").mkdir(parents=True, exist_ok=True)
        Image.new("L", (28, 28), 99).save(tmp_path / "data" / "7" / f"{name}.png")
    broken = tmp_path / "data" / "7" / "b.png"
    broken.write_bytes(broken.read_bytes()[:40])
    result = run("evaluate --model mnist --data image_folder:data -M gae --metrics auac -o run -q")
    assert result.exit_code == 0
    assert "1 of 2 samples could not be evaluated" in result.stderr
    assert "b.png' cannot be read as an image" in result.stderr


# -- without data ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_data_every_bundled_model_is_measured(run: Run, tmp_path: Path) -> None:
    result = run("evaluate --methods random,gae --limit 1 --out here")
    assert result.exit_code == 0, result.output
    done = {place.name for place in (tmp_path / "here").iterdir()}
    left_out = {n for n in whyformer.models() if f"note: left out {n}: " in result.stderr}
    assert done | left_out == set(whyformer.models())
    assert done >= {"sst2", "mnist", "lxmert_shapes", "visualbert_shapes"}
    for name in done:
        assert f"{name} on bundled samples" in result.stdout
        assert (tmp_path / "here" / name / "report.html").is_file()
    segmented = Results.read(tmp_path / "here" / "lxmert_shapes").metrics
    assert {"pointing_game", "segmentation/miou"} <= set(segmented)


def test_without_data_models_that_cannot_are_left_out(run: Run, tmp_path: Path) -> None:
    result = run("evaluate -M random --limit 1 --out here --metrics auac --fill mask -q")
    assert result.exit_code == 0, result.output
    assert "left out mnist: fill='mask' is not for stream 'image'" in result.stderr
    assert (tmp_path / "here" / "sst2" / "table.md").is_file()


def test_without_data_a_mistake_is_one_error(run: Run) -> None:
    result = run("evaluate -M random --limit 1 --out here --metrics auac --set auac.speciall=keep")
    refused(result, "has no option 'speciall'")


def test_a_model_that_was_named_is_measured_by_what_fits(run: Run, tmp_path: Path) -> None:
    result = run("evaluate --model clip_shapes -M gae,lrp_ah_ln --limit 1 --out here")
    assert result.exit_code == 0, result.output
    assert "metrics that run the model again are left out: CLIPModel" in result.stderr
    assert "conservation" in result.stdout


# -- kill -9 ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_and_given_again_is_as_if_it_never_stopped(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("whole", "cut"):
        for i in range(40):
            folder = tmp_path / name / "digits" / "val" / str(i % 10)
            folder.mkdir(parents=True, exist_ok=True)
            picture = Image.new("L", (28, 28), 6 * i)
            picture.paste(255, (i % 20, 3, i % 20 + 6, 20))
            picture.save(folder / f"{i:02d}.png")
    command = (
        "evaluate --model mnist --data image_folder:digits --methods random,gae"
        " --metrics auac,agreement --target both --out run -q"
    )
    place = tmp_path / "cut"
    parts = place / "run" / "parts"
    program = [sys.executable, "-m", "whyformer", *shlex.split(command)]
    with subprocess.Popen(program, cwd=place, stderr=subprocess.DEVNULL) as killed:
        deadline = time.monotonic() + 120
        while not [*parts.glob("*.parquet")]:
            assert time.monotonic() < deadline
            assert killed.poll() is None, "it was done before it could be killed"
            time.sleep(0.005)
        killed.send_signal(signal.SIGKILL)
    assert 0 < len([*parts.glob("*.parquet")]) < 5
    assert not (place / "run" / "results.parquet").exists()

    # In this process, which has the models loaded; what was typed is part of the settings.
    monkeypatch.setattr(sys, "argv", ["whyformer", *shlex.split(command)])
    for place in (tmp_path / "cut", tmp_path / "whole"):
        monkeypatch.chdir(place)
        again = run(command)
        assert (again.exit_code, again.stdout) == (0, ""), again.output
    for name in ("results.parquet", "settings.json", "table.md", "report.html"):
        one, other = ((tmp_path / n / "run" / name).read_bytes() for n in ("cut", "whole"))
        assert one == other, name
    told = json.loads((tmp_path / "cut" / "run" / "settings.json").read_text("utf-8"))
    assert told["command"] == f"whyformer {command}"
