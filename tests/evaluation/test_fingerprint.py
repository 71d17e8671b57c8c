"""Fingerprints: equal for equal content, different for different content."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from torch import nn

from whyformer.datasets import Mask, Sample
from whyformer.evaluation.fingerprint import of_facts, of_loaded, of_model, of_sample
from whyformer.models.families.tiny import tiny_models
from whyformer.models.load import Loaded, load_model


def test_plain_facts() -> None:
    assert of_facts({"a": 1, "b": (0.5, 1.0)}) == of_facts({"b": [0.5, 1.0], "a": 1})
    assert of_facts({"a": 1}) != of_facts({"a": "1"})
    assert len(of_facts({})) == 32


def test_a_model_is_its_class_config_and_weights() -> None:
    bert = tiny_models()["bert"][1]
    first = of_model(bert())
    assert of_model(bert()) == first
    assert of_model(bert().train()) == first
    assert of_model(bert(seed=1)) != first
    assert of_model(bert(id2label={0: "a", 1: "b", 2: "c"})) != first
    assert of_model(bert().double()) != first
    assert of_model(bert().bfloat16()) != first
    changed = bert()
    with torch.no_grad():
        changed.classifier.bias[0] += 1e-6
    assert of_model(changed) != first


def test_a_module_without_a_config() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    first = of_model(module)
    assert of_model(module) == first
    module[1].running_mean += 1
    assert of_model(module) != first


def test_an_implementation_of_attention_does_not_count() -> None:
    bert = tiny_models()["bert"][1]
    one, other = bert(), bert()
    other.set_attn_implementation("eager")
    assert of_model(one) == of_model(other)


def test_what_makes_the_inputs_counts() -> None:
    sst2 = load_model("sst2")
    first = of_loaded(sst2)
    sst2.processor(["a film", "a longer film"], padding=True, truncation=True, max_length=4)
    assert of_loaded(sst2) == first, "how it was last called does not"
    assert of_loaded(Loaded(sst2.module, None, "sst2")) != first
    sst2.processor.add_tokens(["gripping"])
    assert of_loaded(sst2) != first
    mnist = load_model("mnist")
    seen = of_loaded(mnist)
    mnist.processor.image_mean = [0.1] * len(mnist.processor.image_mean)
    assert of_loaded(mnist) != seen
    question = load_model("clip_shapes")
    before = of_loaded(question)
    assert of_loaded(load_model("clip_shapes")) == before
    question.processor.tokenizer.add_tokens(["octagon"])
    assert of_loaded(question) != before


def picture(value: int) -> Any:
    return Image.fromarray(numpy.full((4, 4), value, dtype=numpy.uint8))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Sample("a", "text"), Sample("b", "text")),
        (Sample("a", "text"), Sample("a", "texts")),
        (Sample("a", "text", 0), Sample("a", "text", 1)),
        (Sample("a", ("ab", "c")), Sample("a", ("a", "bc"))),
        (Sample("a", picture(1)), Sample("a", picture(2))),
        (Sample("a", {"text": "x"}), Sample("a", {"text": "y"})),
        (Sample("a", "x", extras={"tokens": ("a",)}), Sample("a", "x", extras={"tokens": ("b",)})),
        (
            Sample("a", "x", extras={"features": torch.zeros(2, 2)}),
            Sample("a", "x", extras={"features": torch.ones(2, 2)}),
        ),
        (
            Sample("a", "x", extras={"mask": Mask(numpy.zeros((2, 2)))}),
            Sample("a", "x", extras={"mask": Mask(numpy.ones((2, 2)))}),
        ),
    ],
)
def test_other_samples_have_other_names(one: Sample, other: Sample) -> None:
    assert of_sample(one) != of_sample(other)
    assert of_sample(one) == of_sample(Sample(one.id, one.inputs, one.label, extras=one.extras))


def test_a_file_is_what_is_in_it(tmp_path: Path) -> None:
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    picture(1).save(first)
    second.write_bytes(first.read_bytes())
    assert of_sample(Sample("x", first)) == of_sample(Sample("x", second))
    picture(9).save(second)
    assert of_sample(Sample("x", first)) != of_sample(Sample("x", second))


def test_the_same_in_another_process() -> None:
    script = (
        "from whyformer.datasets import Sample\n"
        "from whyformer.evaluation.fingerprint import of_sample\n"
        "print(of_sample(Sample('naïve/漢', 'a good film', 1, extras={'b': {'x': 1}, 'a': 2})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    here = of_sample(Sample("naïve/漢", "a good film", 1, extras={"a": 2, "b": {"x": 1}}))
    assert done.stdout.strip() == here
