"""Images, and texts with images: what is read, what a model may be asked, what is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import whyformer
from whyformer import query
from whyformer.models.quiet import quiet_loading

Run = Callable[..., Any]
QUESTION = "'what colour is the cross?'"


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A picture of coloured shapes in the working folder."""
    samples = whyformer.models()["lxmert_shapes"].folder / "samples"
    return Path(shutil.copy(samples / "scene1.png", tmp_path / "scene.png"))


def refused(result: Any, *pieces: str) -> None:
    """The command ended with 2 and one line of error that says all the pieces."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for piece in pieces:
        assert piece in result.stderr


# -- what is read ----------------------------------------------------------------------------------


def test_a_text_goes_with_the_image(
    run: Run, fake_explain: Any, scene: Path, tmp_path: Path
) -> None:
    assert run(f"explain --image scene.png {QUESTION}").exit_code == 0
    wanted = {"text": "what colour is the cross?", "image": Path("scene.png")}
    assert fake_explain.inputs == wanted
    (tmp_path / "question.txt").write_text("what colour is the cross?\n")
    for line in ("explain -i scene.png -", "explain question.txt --image scene.png"):
        assert run(line, "what colour is the cross?\n").exit_code == 0
        assert fake_explain.inputs == wanted


def test_an_image_alone_leaves_stdin_alone(run: Run, fake_explain: Any, scene: Path) -> None:
    assert run("explain --image scene.png", "not read").exit_code == 0
    assert fake_explain.inputs == Path("scene.png")


def test_the_image_may_come_through_stdin(run: Run, fake_explain: Any) -> None:
    buffer = BytesIO()
    Image.new("L", (4, 3)).save(buffer, "PNG")
    assert run(f"explain --image - {QUESTION}", buffer.getvalue()).exit_code == 0
    assert fake_explain.inputs["image"].size == (4, 3)
    refused(run("explain --image - text", "words"), "stdin holds text")
    refused(run("explain --image - -", "words"), "both '-'")


def test_images_that_cannot_be_had(
    run: Run, fake_explain: Any, scene: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.png").write_text("not an image")
    refused(run(f"explain {QUESTION} --image nope.png"), "no image file 'nope.png'")
    refused(run(f"explain {QUESTION} --image broken.png"), "'broken.png' cannot be read")
    refused(run(f"explain {QUESTION} --image ."), "is a folder")
    refused(run("explain scene.png --image scene.png"), "Pass one image", "text as INPUT")
    assert not fake_explain.calls


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("--query 3", query(3)),
        ("--query 3 --target 'red circle'", query(3, "red circle")),
        ("--query 0 -t 7", query(0, 7)),
        (
            "--query 1 -t 'a>b'",
            whyformer.contrast(query(1, "a"), query(1, "b")),
        ),
    ],
)
def test_queries(run: Run, fake_explain: Any, scene: Path, typed: str, wanted: Any) -> None:
    assert run(f"explain --image scene.png {typed}").exit_code == 0
    assert fake_explain.keywords["target"] == wanted


# -- what is written -------------------------------------------------------------------------------


def test_a_picture_is_written_unless_another_file_is(
    run: Run, fake_explain: Any, scene: Path, tmp_path: Path
) -> None:
    assert run("explain --image scene.png --json w.json").stderr == "wrote w.json\n"
    assert run("explain scene.png").stderr == ""
    assert not (tmp_path / "why.png").exists()
    assert run("explain --image scene.png -q").stderr == "wrote why.png\n"
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


def test_the_image_itself_is_never_written_over(
    run: Run, fake_explain: Any, scene: Path, tmp_path: Path
) -> None:
    before = scene.read_bytes()
    refused(run("explain --image scene.png --png ./scene.png"), "is the image to explain")
    scene.rename(tmp_path / "why.png")
    refused(run("explain --image why.png"), "--png 'why.png'", "--png explained.png")
    assert (tmp_path / "why.png").read_bytes() == before
    assert not fake_explain.calls


def test_a_locked_folder_only_loses_the_picture(
    run: Run, fake_explain: Any, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyformer.cli.files.os.access", lambda _, mode: mode != os.W_OK)
    result = run("explain --image scene.png")
    assert result.exit_code == 0
    assert result.stderr.startswith("note: no picture was written")


# -- the whole way, with the models that ship ------------------------------------------------------


def test_a_question_about_an_image(run: Run, scene: Path, tmp_path: Path) -> None:
    result = run(f"explain --image scene.png {QUESTION} --method gae -o normalize=false")
    assert result.exit_code == 0, result.output
    for piece in ("why purple?", "model lxmert_shapes", "[CLS]", "colour", "cross", "row 3"):
        assert piece in result.stdout
    assert result.stderr == "wrote why.png\n"
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.width > 200


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        (f"{QUESTION} --model sst2", ("sst2 reads text, but was given an image", "lxmert_shapes")),
        ("--model sst2", ("sst2 reads text, but was given images", "mnist")),
        ("--model lxmert_shapes", ("reads text and images", "Also pass a text as INPUT")),
        (f"{QUESTION} --model mnist", ("mnist reads images, but was given a text", "Leave it out")),
        (f"{QUESTION} --query 3", ("--query 3", "lxmert_shapes has no object queries")),
        ("--query 3", ("--query 3", "mnist has no object queries")),
    ],
)
def test_models_that_cannot_be_asked_that(
    run: Run, scene: Path, line: str, pieces: tuple[str, ...]
) -> None:
    refused(run(f"explain --image scene.png {line}"), *pieces)


def test_a_question_without_its_image(run: Run) -> None:
    refused(run(f"explain {QUESTION} --model lxmert_shapes"), "Also pass --image FILE")
    refused(run("compare film --model mnist"), "mnist reads images, but was given text")
    refused(run("compare film --query 1"), "sst2 has no object queries")


@pytest.mark.skipif("detr_shapes" not in whyformer.models(), reason="no bundled detector")
def test_a_detector(run: Run, scene: Path) -> None:
    detect = "explain --model detr_shapes --image scene.png"
    assert "at query" in run(f"{detect} --method gae").stdout
    result = run(f"{detect} --method gae --query 3 --target 'red circle'")
    assert "why red circle at query 3?" in result.stdout
    refused(
        run(f"{detect} --query 99"), "no object query 99; the model has 0 to", "another --query"
    )
    refused(run(f"{detect} --target 'red circle'"), "--target needs a query. Add --query N")
    refused(run(f"{detect} --query 1 --target 'reed circle'"), "Did you mean 'red circle'?")


@pytest.mark.skipif("clip_shapes" not in whyformer.models(), reason="no bundled model of towers")
def test_a_text_and_an_image_that_may_fit(run: Run, scene: Path) -> None:
    result = run("explain --model clip_shapes --image scene.png 'a red square' --method gae")
    assert result.exit_code == 0, result.output
    for piece in ("why similarity?", "red", "square", "row"):
        assert piece in result.stdout
    assert result.stderr == "wrote why.png\n"
    refused(run("explain 'a red square' --model clip_shapes"), "Also pass --image FILE")


@pytest.mark.skipif("caption_shapes" not in whyformer.models(), reason="no bundled captioner")
def test_a_caption(run: Run, scene: Path) -> None:
    captioned = "explain --model caption_shapes --image scene.png"
    result = run(f"{captioned} --method gae")
    assert result.exit_code == 0, result.output
    assert "output by" in result.stdout
    assert "cross" in result.stdout
    assert result.stderr == "wrote why.png\n"
    refused(run(f"{captioned} 'a red square'"), "reads images, but was given a text", "--answer")


def test_what_a_model_writes(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "writer"
    with quiet_loading():
        whyformer.families()["t5"].tiny().save_pretrained(folder)  # type: ignore[misc, operator]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(whyformer.models()["lxmert_shapes"].folder / name, folder / name)
    result = run(
        "explain 'is there a red circle' -m ./writer -t 'blue square' -M gae -q --json w.json"
    )
    assert result.exit_code == 0, result.output
    streams = json.loads((tmp_path / "w.json").read_text("utf-8"))["streams"]
    assert list(streams) == ["source", "generated"]
    assert "circle" in streams["source"]["tokens"][0]
