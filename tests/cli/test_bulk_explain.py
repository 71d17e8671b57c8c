"""`whyformer explain --input FILE --out FILE`: rows in, rows of scores out, also after a kill."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pyarrow import parquet

import whyformer
from tests.wordpiece import wordpiece_of
from whyformer.cli.score_writer import ScoreWriter
from whyformer.models.load import Loaded

Run = Callable[..., Any]
WORDS = ("a", "good", "bad", "film", "and", "dull", "story")
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
TEXTS = [" ".join(WORDS[i % 7 : i % 7 + 1 + i % 5]) for i in range(70)]
PART = 16 * 2  # of --batch-size 2


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """A tiny model in the place of every other."""
    build: Any = whyformer.families()["bert"].tiny
    loaded = Loaded(build(), wordpiece_of(PIECES), "tiny")
    monkeypatch.setattr("whyformer.cli.bulk_explain.load_model", lambda *_: loaded)
    return loaded


def write(name: str, *rows: dict[str, Any]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


def refused(result: Any, *pieces: str) -> None:
    assert result.exit_code == 2, result.output
    told = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(told) == 1
    for piece in pieces:
        assert piece in told[0]


def test_every_row_gets_a_row_of_scores(run: Run, small: Loaded) -> None:
    write("in.jsonl", *({"text": text} for text in TEXTS[:5]))
    result = run("explain --input in.jsonl --out out.parquet --method gae")
    assert result.exit_code == 0, result.output
    assert "wrote out.parquet" in result.stderr
    table = parquet.read_table("out.parquet")
    assert not list(Path().glob("*.parts"))
    facts = json.loads(table.schema.metadata[b"whyformer"])
    assert (facts["model"], facts["method"]) == ("tiny", "gae")
    assert set(facts["versions"]) == {"whyformer", "torch", "transformers"}
    rows = table.to_pylist()
    assert [row["text"] for row in rows] == TEXTS[:5]
    assert [row["index"] for row in rows] == list(range(5))
    assert [row["id"] for row in rows] == [f"all/{i}" for i in range(5)]
    for row in rows:
        alone = whyformer.explain(
            row["text"], small.module, processor=small.processor, method="gae"
        )
        assert tuple(row["tokens"]) == alone.tokens[0]
        assert torch.allclose(torch.tensor(row["scores"]), alone.scores[0], atol=1e-5)
        assert list(zip(row["words"], row["word_scores"], strict=True)) == [
            (word, pytest.approx(score, abs=1e-5)) for word, score in alone.words()
        ]
        assert row["target"] == int(alone.target[0])
        assert row["target_label"] == alone.labels[0]
        assert row["output"] == pytest.approx(float(alone.output[0]), abs=1e-5)
        assert alone.probability is not None
        assert row["probability"] == pytest.approx(float(alone.probability[0]), abs=1e-5)
        assert row["method"] == "gae"
        assert row["conservation"] is None


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("in.txt", "a good film\n\n  dull \n", ""),
        ("in.csv", "review,y\na good film,1\ndull,0\n", "--column review"),
        ("in.tsv", "sentence\ta\na good film\t1\ndull\t0\n", ""),
    ],
)
def test_these_files_are_read(run: Run, name: str, content: str, options: str) -> None:
    Path(name).write_text(content, "utf-8")
    assert run(f"explain --input {name} --out out.jsonl {options}").exit_code == 0
    assert [row["text"] for row in lines("out.jsonl")] == ["a good film", "dull"]


def test_a_dataset_is_named_with_its_place(run: Run) -> None:
    write("train.jsonl", {"text": "dull"})
    write("dev.jsonl", {"text": "good"})
    assert run("explain --input jsonl:. --split dev --out out.jsonl").exit_code == 0
    assert lines("out.jsonl")[0]["id"] == "dev/0"


def test_targets_stand_in_a_column(run: Run) -> None:
    write("in.jsonl", *({"text": "a film", "class": wanted} for wanted in (0, 2, "LABEL_1")))
    assert run("explain --input in.jsonl --out o.jsonl --target-column class").exit_code == 0
    assert [row["target"] for row in lines("o.jsonl")] == [0, 2, 1]
    assert run("explain --input in.jsonl --out o.jsonl --target 2 --limit 2").exit_code == 0
    assert [row["target"] for row in lines("o.jsonl")] == [2, 2]


@pytest.mark.parametrize("out", ["out.parquet", "out.jsonl"])
@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(
    run: Run, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("in.jsonl", *({"text": text} for text in TEXTS))
    line = f"explain --input in.jsonl --out {out} --batch-size 2"
    assert run(line).exit_code == 0
    whole = Path(out).read_bytes()
    Path(out).unlink()
    explain, stops = whyformer.explain, [PART + 5]
    seen: list[Any] = []

    def interrupted(inputs: Any, *args: Any, **keywords: Any) -> Any:
        for one in explain(inputs, *args, **keywords):
            if [len(seen)] == stops:
                stops.clear()
                raise KeyboardInterrupt
            seen.append(one.provenance["id"])
            yield one

    monkeypatch.setattr(whyformer, "explain", interrupted)
    stopped = run(line)
    assert stopped.exit_code == 130
    assert f"{PART} inputs are saved in {out}.parts" in stopped.stderr
    assert not Path(out).exists()
    del seen[1:]
    again = run(line)
    assert again.exit_code == 0, again.output
    assert f"{PART} of them finished by an earlier run" in again.stderr
    assert seen[1:] == [f"all/{i}" for i in range(PART, len(TEXTS))]
    assert Path(out).read_bytes() == whole
    assert not Path(f"{out}.parts").exists()


def stop(*arguments: Any) -> None:
    raise KeyboardInterrupt


def begun(run: Run, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Leaves the parts of a run behind that could not write its file."""
    with monkeypatch.context() as patch:
        patch.setattr(
            ScoreWriter, "finish", lambda self, count: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        assert run(line).exit_code == 130


def test_parts_of_another_run_are_not_taken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("in.jsonl", *({"text": text} for text in TEXTS[:3]))
    begun(run, monkeypatch, "explain --input in.jsonl --out o.jsonl")
    refused(
        run("explain --input in.jsonl --out o.jsonl --method gae"),
        "o.jsonl.parts",
        "another run, whose method was 'auto' and not 'gae'",
        "Delete the folder",
    )


def test_a_run_that_was_refused_leaves_nothing_behind(run: Run) -> None:
    write("in.jsonl", {"text": "dull"})
    refused(run("explain --input in.jsonl --out o.jsonl --method gea"), "gea")
    assert not Path("o.jsonl.parts").exists()
    assert run("explain --input in.jsonl --out o.jsonl --method gae").exit_code == 0


def test_only_the_file_is_made_where_all_parts_are_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("in.jsonl", *({"text": text} for text in TEXTS[:40]))
    line = "explain --input in.jsonl --batch-size 2 --out"
    assert run(f"{line} whole.parquet").exit_code == 0
    begun(run, monkeypatch, f"{line} o.parquet")
    assert run(f"{line} o.parquet").exit_code == 0
    assert parquet.ParquetFile("o.parquet").num_row_groups == 2
    assert Path("o.parquet").read_bytes() == Path("whole.parquet").read_bytes()


def test_an_input_that_has_changed_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("in.jsonl", *({"text": text} for text in TEXTS[:3]))
    begun(run, monkeypatch, "explain --input in.jsonl --out o.jsonl")
    write("in.jsonl", {"text": TEXTS[0]}, {"text": "dull"}, {"text": TEXTS[2]})
    refused(
        run("explain --input in.jsonl --out o.jsonl"), "'all/1'", "has changed", "o.jsonl.parts"
    )


@pytest.mark.parametrize("out", ["o.jsonl", "o.parquet"])
@pytest.mark.slow
def test_damaged_parts_are_computed_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    write("in.jsonl", *({"text": text} for text in TEXTS))
    line = f"explain --input in.jsonl --out {out} --batch-size 2"
    assert run(line).exit_code == 0
    whole = Path(out).read_bytes()
    begun(run, monkeypatch, line)
    first, second, third = sorted(Path(f"{out}.parts").glob("0*[!6]"))
    first.write_bytes(first.read_bytes()[: first.stat().st_size // 2])
    kept = second.read_bytes().splitlines(keepends=True)
    second.write_bytes(b"".join(kept[:-1]))  # a sound file, without its last row
    third.with_name(f"{third.name}.sha256").unlink()
    again = run(line)
    assert again.exit_code == 0, again.output
    assert "finished by an earlier run" not in again.stderr
    assert Path(out).read_bytes() == whole


def test_a_full_disk_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write("in.jsonl", {"text": "dull"})
    monkeypatch.setattr("whyformer.storage.atomic_write.os.fsync", full)
    refused(
        run("explain --input in.jsonl --out o.parquet"),
        "No space left on device",
        "the same command again",
    )
    assert [one.name for one in Path("o.parquet.parts").glob(".*")] == [".lock"]


def test_rows_that_cannot_be_read_or_explained(run: Run) -> None:
    long = "a " * 60
    rows = [{"text": t} for t in ("good", "", "bad", long, "dull")]
    write("in.jsonl", *rows)
    refused(run("explain --input in.jsonl --out o.jsonl"), "in.jsonl, line 2", "--skip-errors")
    result = run("explain --input in.jsonl --out p.jsonl --skip-errors")
    assert result.exit_code == 0, result.output
    assert "2 inputs were skipped" in result.stderr
    assert "line 2" in result.stderr
    assert "'all/3'" in result.stderr
    assert [row["text"] for row in lines("p.jsonl")] == ["good", "bad", "dull"]
    write("in.jsonl", rows[0], rows[3])
    refused(run("explain --input in.jsonl --out q.jsonl"), "'all/1'", "tokens", "--truncation")
    assert run("explain --input in.jsonl --out r.jsonl --truncation").exit_code == 0


def test_a_row_without_its_target_is_refused_or_left_out(run: Run) -> None:
    write("in.jsonl", {"text": "good", "y": 1}, {"text": "bad", "y": None})
    line = "explain --input in.jsonl --target-column y --out"
    refused(run(f"{line} o.jsonl"), "'all/1' has no value in the column 'y'", "--skip-errors")
    result = run(f"{line} p.jsonl --skip-errors")
    assert result.exit_code == 0
    assert "no value in the column" in result.stderr
    assert len(lines("p.jsonl")) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--input in.jsonl", "--input needs a file for the scores"),
        ("--input in.jsonl --out o.txt", "ends in .parquet or .jsonl"),
        ("--input in.jsonl --out no/o.jsonl", "there is no folder 'no'"),
        ("--input in.jsonl --out in.jsonl", "'in.jsonl' is the file that --input reads"),
        ("--input none.jsonl --out o.jsonl", "there is no file 'none.jsonl'"),
        ("--input in.xml --out o.jsonl", "one of .jsonl, .ndjson, .csv"),
        ("--input in.jsonl --out o.jsonl --column body", "no column 'body'"),
        (
            "--input in.jsonl --out o.jsonl --limit 0",
            "--limit 0 leaves no rows. Pass a whole number from 1",
        ),
        (
            "--input in.jsonl --out o.jsonl --batch-size 0",
            "Pass a whole number from 1 as --batch-size",
        ),
        ("--input in.jsonl --out o.jsonl --html x.html", "--html is for one input"),
        ("--input in.jsonl --out o.jsonl --target 1 --target-column y", "Pass only one"),
        ("'a text' --input in.jsonl --out o.jsonl", "INPUT is for one input"),
        ("'a text' --out o.jsonl", "--out is for many inputs"),
        ("'a text' --skip-errors", "--skip-errors is for many inputs"),
    ],
)
def test_mistakes_are_one_line(run: Run, line: str, message: str) -> None:
    write("in.jsonl", {"text": "good"})
    Path("in.xml").touch()
    refused(run(f"explain {line}"), message)


def test_an_image_has_a_grid_and_a_path(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from whyformer.models.load import load_model

    monkeypatch.setattr("whyformer.cli.bulk_explain.load_model", load_model)
    Image.new("L", (28, 28), 90).save("five.png")
    write("in.jsonl", {"image": "five.png"})
    assert run("explain --input in.jsonl --out o.parquet --method gae").exit_code == 0
    (row,) = parquet.read_table("o.parquet").to_pylist()
    assert row["image"] == "five.png"
    assert row["tokens"] is None
    assert row["grid"][0] * row["grid"][1] == len(row["scores"])
