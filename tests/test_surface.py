"""The public names that other people's code relies on: change them only on purpose."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import whyformer as wf
from whyformer.attribution import Layer, Stream


def test_the_package_offers_these_names_and_no_others() -> None:
    assert sorted(wf.__all__) == [
        "Attribution",
        "Comparison",
        "audit",
        "compare",
        "contrast",
        "errors",
        "evaluate",
        "explain",
        "families",
        "figure",
        "load",
        "methods",
        "metrics",
        "models",
        "query",
        "recommend",
        "span",
        "summarize",
        "token",
    ]
    assert all(hasattr(wf, name) for name in wf.__all__)


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    """In a fresh process: imports of other tests must not decide what is visible."""
    program = "import whyformer as wf; print(dir(wf) == sorted(wf.__all__), callable(wf.figure))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["True", "True"]
    assert dir(wf) == sorted(wf.__all__)


def test_every_public_function_is_documented() -> None:
    """Google style: arguments, result and an example, so that a reference can be generated."""
    functions = [wf.methods, wf.metrics, wf.families, wf.models, wf.evaluate, wf.audit]
    for function in functions:
        text = inspect.getdoc(function) or ""
        assert "Returns:" in text, function
        assert "Example:" in text, function


def test_the_examples_of_the_package_run() -> None:
    assert doctest.testmod(wf, raise_on_error=False).failed == 0


def test_explain_takes_these_arguments() -> None:
    signature = inspect.signature(wf.explain)
    found = [
        (name, parameter.kind.name, parameter.default)
        for name, parameter in signature.parameters.items()
    ]
    required = inspect.Parameter.empty
    assert found == [
        ("inputs", "POSITIONAL_OR_KEYWORD", required),
        ("model", "POSITIONAL_OR_KEYWORD", None),
        ("misplaced", "VAR_POSITIONAL", required),
        ("method", "KEYWORD_ONLY", "auto"),
        ("target", "KEYWORD_ONLY", None),
        ("processor", "KEYWORD_ONLY", None),
        ("tokenizer", "KEYWORD_ONLY", None),
        ("image_processor", "KEYWORD_ONLY", None),
        ("device", "KEYWORD_ONLY", None),
        ("dtype", "KEYWORD_ONLY", None),
        ("truncation", "KEYWORD_ONLY", False),
        ("keep", "KEYWORD_ONLY", ()),
        ("memory", "KEYWORD_ONLY", None),
        ("tokens", "KEYWORD_ONLY", None),
        ("blocks", "KEYWORD_ONLY", None),
        ("batch_first", "KEYWORD_ONLY", None),
        ("deciding", "KEYWORD_ONLY", None),
        ("strict", "KEYWORD_ONLY", False),
        ("check_precision", "KEYWORD_ONLY", False),
        ("each", "KEYWORD_ONLY", None),
        ("image_scale", "KEYWORD_ONLY", "tokens"),
        ("max_new_tokens", "KEYWORD_ONLY", None),
        ("seed", "KEYWORD_ONLY", None),
        ("batch_size", "KEYWORD_ONLY", None),
        ("on_error", "KEYWORD_ONLY", "raise"),
        ("progress", "KEYWORD_ONLY", False),
        ("options", "VAR_KEYWORD", required),
    ]


def test_an_attribution_has_these_attributes() -> None:
    assert [field.name for field in dataclasses.fields(wf.Attribution)] == [
        "method",
        "streams",
        "main",
        "target",
        "output",
        "labels",
        "conservation",
        "probability",
        "sinks",
        "layers",
        "maps",
        "nodes",
        "options",
        "provenance",
        "trust",
    ]
    beyond_fields = {
        name
        for name in dir(wf.Attribution)
        if not name.startswith("_")
        and name not in {field.name for field in dataclasses.fields(wf.Attribution)}
    }
    assert beyond_fields == {
        "render",
        "save",
        "scores",
        "to_csv",
        "to_dict",
        "to_html",
        "to_json",
        "to_pandas",
        "to_pdf",
        "to_png",
        "to_shap",
        "to_svg",
        "to_terminal",
        "tokens",
        "top",
        "words",
    }


def test_a_stream_has_these_attributes() -> None:
    assert [field.name for field in dataclasses.fields(Stream)] == [
        "name",
        "scores",
        "mask",
        "tokens",
        "word_ids",
        "grid",
        "image",
        "pixels",
        "states",
        "deciding",
        "errors",
        "said",
        "roles",
        "probabilities",
        "spans",
    ]


def test_a_layer_has_these_attributes() -> None:
    assert [field.name for field in dataclasses.fields(Layer)] == [
        "attention",
        "gradient",
        "relevance",
        "relevance_sum",
        "entering",
        "leaving",
        "asking",
        "answering",
        "together",
    ]


def test_a_family_is_declared_by_these_names() -> None:
    """What a user writes to explain a model of several streams of their own."""
    declared = importlib.import_module("whyformer.models.families")
    assert {"Family", "Source", "Stack", "declare"} <= set(declared.__all__)
    assert {f.name for f in dataclasses.fields(declared.Source)} >= {
        "stream",
        "carrier",
        "kind",
        "mask",
        "beside",
        "part",
        "widths",
        "optional",
    }
    assert {f.name for f in dataclasses.fields(declared.Stack)} == {
        "streams",
        "blocks",
        "leaves",
        "read",
        "hidden",
        "pads",
        "like",
        "merged",
        "spread",
        # Of stacks that were found by what ran:
        "paths",
        "whole",
        "crosses",
        "own",
    }


def test_the_methods_and_models_that_were_promised_are_there() -> None:
    assert set(wf.methods()) >= {
        "attention_flow",
        "attn_lrp",
        "auto",
        "blend",
        "context_cite",
        "full_lrp",
        "gae",
        "grad_cam",
        "gradient_x_input",
        "integrated_gradients",
        "kernel_shap",
        "legrad",
        "libragrad",
        "lrp_ah",
        "lrp_ah_ln",
        "lrp_ln",
        "occlusion",
        "partial_lrp",
        "partition_shap",
        "random",
        "raw_attention",
        "rollout",
        "transformer_attribution",
    }
    assert set(wf.families()) >= {
        "bart",
        "blip_answering",
        "blip_captioning",
        "blip_matching",
        "clip",
        "detr",
        "lxmert",
        "marian",
        "siglip",
        "t5",
        "vilt",
        "vision_encoder_decoder",
        "visual_bert",
        "whisper",
        "yolos",
    }
    assert set(wf.models()) >= {"mnist", "sst2"}


def test_the_version_is_one_and_the_same_everywhere() -> None:
    root = Path(__file__).parent.parent
    declared = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["version"] == wf.__version__
    newest = re.search(r"^## \[(\d[^\]]*)\]", (root / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert newest is not None
    assert newest[1] == wf.__version__
