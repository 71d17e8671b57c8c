"""`whyformer compare`: several methods, one model, one input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

import whyformer
from whyformer.compare import DEFAULT_METHODS
from whyformer.errors import InputError, ModelError

Run = Callable[..., Any]


def test_the_handful_exists() -> None:
    assert set(DEFAULT_METHODS) <= set(whyformer.methods())


def test_methods_side_by_side(run: Run, fake_explain: Any, loads: list[Any]) -> None:
    result = run("compare 'a film' --methods 'gae, rollout,gae' --model here --target 1")
    assert result.exit_code == 0
    assert [keywords["method"] for _, _, keywords in fake_explain.calls] == ["gae", "rollout"]
    assert {model.module for _, model, _ in fake_explain.calls} == {"module"}
    assert {model.processor for _, model, _ in fake_explain.calls} == {"processor"}
    assert {keywords["target"] for _, _, keywords in fake_explain.calls} == {1}
    assert loads == ["here"]
    for piece in ("gae", "rollout", "good", "+0.750", "model here"):
        assert piece in result.stdout


def test_a_handful_by_default(run: Run, fake_explain: Any) -> None:
    assert run("compare film").exit_code == 0
    assert tuple(keywords["method"] for _, _, keywords in fake_explain.calls) == DEFAULT_METHODS


def test_all_leaves_out_what_does_not_fit(run: Run, fake_explain: Any) -> None:
    def refuse(method: str) -> None:
        if method == "rollout":
            raise ModelError("no attention here")

    fake_explain.instead = refuse
    result = run("compare film --methods all")
    assert result.exit_code == 0
    assert "note: left out rollout: no attention here" in result.stderr
    quick = [name for name, method in whyformer.methods().items() if method.in_all]
    assert [keywords["method"] for _, _, keywords in fake_explain.calls] == quick


def test_a_method_that_was_named_is_not_left_out(run: Run, fake_explain: Any) -> None:
    def refuse(method: str) -> None:
        raise ModelError("no attention here")

    fake_explain.instead = refuse
    result = run("compare film --methods gae,rollout")
    assert result.exit_code == 2
    assert result.stderr == "error: no attention here\n"


def test_where_nothing_fits_the_reason_is_given(run: Run, fake_explain: Any) -> None:
    def refuse(method: str) -> None:
        raise InputError("the text is empty")

    fake_explain.instead = refuse
    result = run("compare film --methods all")
    assert result.exit_code == 2
    assert "no method could explain this input: the text is empty" in result.stderr


def test_unknown_methods_are_refused_before_the_model_is_loaded(
    run: Run, fake_explain: Any, loads: list[Any]
) -> None:
    result = run("compare film --methods gae,rolout")
    assert result.exit_code == 2
    assert "'rolout'. Did you mean 'rollout'?" in result.stderr
    assert run("compare film --methods ,").exit_code == 2
    assert not loads


def test_files(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    result = run("compare film -q -M gae,rollout --html c.html --png c.png --json c.json")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "rollout" in (tmp_path / "c.html").read_text("utf-8")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads((tmp_path / "c.json").read_text("utf-8"))
    assert [one["method"] for one in data] == ["gae", "rollout"]
    refused = run("compare film --png no/c.png")
    assert refused.exit_code == 2
    assert "no folder 'no'" in refused.stderr


def test_an_image_and_its_question(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "scene.png")
    result = run("compare --image scene.png 'what is it?' -M gae,rollout --query 1")
    assert result.exit_code == 0, result.output
    assert fake_explain.inputs == {"text": "what is it?", "image": Path("scene.png")}
    assert fake_explain.keywords["target"] == whyformer.query(1)
    assert result.stderr == "wrote why.png\n"
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


def test_several_targets_side_by_side(run: Run, fake_explain: Any) -> None:
    result = run("compare film --targets '0, 1,0>1' --model here")
    assert result.exit_code == 0
    assert [keywords["method"] for _, _, keywords in fake_explain.calls] == [DEFAULT_METHODS[0]] * 3
    first, second, both = (keywords["target"] for _, _, keywords in fake_explain.calls)
    assert (first, second) == (0, 1)
    assert both == whyformer.contrast(0, 1)


def test_targets_are_for_every_method_that_is_named(run: Run, fake_explain: Any) -> None:
    assert run("compare film --targets 0,1 --methods gae,rollout").exit_code == 0
    found = [(keywords["method"], keywords["target"]) for _, _, keywords in fake_explain.calls]
    assert found == [("gae", 0), ("gae", 1), ("rollout", 0), ("rollout", 1)]


def test_one_way_to_say_what_to_explain(run: Run, fake_explain: Any) -> None:
    result = run("compare film --targets 0,1 --target 0")
    assert result.exit_code == 2
    assert "--target and --targets both name what to explain" in result.stderr
    assert "has an empty name" in run("compare film --targets 0,,1").stderr


def test_the_scale(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    asked = "compare 'a dull film' --targets positive,negative"
    assert "Each target has its own colour scale" in " ".join(run(asked).stdout.split())
    result = run(f"{asked} --scale shared --html {page}")
    assert result.exit_code == 0
    assert "All share one colour scale" in " ".join(result.stdout.split())
    assert "All share one colour scale" in page.read_text("utf-8")


def test_a_scale_that_does_not_fit(run: Run, fake_explain: Any) -> None:
    result = run("compare film --methods lrp_ah_ln,gae --scale shared")
    assert result.exit_code == 2
    assert "the scores of 'gae' do not sum to the output" in result.stderr
    assert run("compare film --scale each").exit_code == 2
    assert not fake_explain.calls
