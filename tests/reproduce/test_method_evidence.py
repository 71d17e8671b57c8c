"""The experiment "methods": its rows, its tasks, and the images that GridPG is built from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification

from whyformer.datasets import Sample
from whyformer.methods import methods
from whyformer.models.load import Loaded
from whyformer.reproduce import method_evidence
from whyformer.reproduce.method_evidence import CANDIDATES, COSTLY, METHODS, registered_rows
from whyformer.reproduce.samples import recognised_images
from whyformer.reproduce.scene_questions import held_out_questions, question_samples
from whyformer.reproduce.scenes import HELD_OUT

PARTS = {part.name: part for part in METHODS.parts}


def test_every_task_of_the_issue_is_a_part() -> None:
    texts = {"sst2", "imdb", "emotion", "hate", "sentiment", "meld", "bace", "mnist", "movies"}
    assert set(PARTS) >= texts | {"imagenet", "pets", "gridpg"}
    assert {name.rpartition("-")[0] for name in PARTS if "shapes" in name} == {
        "lxmert_shapes",
        "visualbert_shapes",
    }


def test_every_registered_method_is_a_candidate() -> None:
    """A perturbation method may stay out for its cost; every other method needs a row."""
    costly = {name for name, one in methods.items() if one.slow} | {"kernel_shap", "partition_shap"}
    chooses = {name for name, one in methods.items() if one.alias}
    left_out = set(methods) - {name for name, _ in CANDIDATES.values()} - chooses
    assert left_out <= costly | {"context_cite", "value_zeroing"}


def test_rows_appear_when_their_method_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name for name, _ in CANDIDATES.values()} & set(methods)
    assert {row.method for row in registered_rows()} == known
    more = {
        "soon": ("no such method", {}),
        "gae (soon)": ("gae", {"no such option": 1}),
        "gae (lrp)": ("gae", {"use_lrp": True}),
    }
    monkeypatch.setattr(method_evidence, "CANDIDATES", {**CANDIDATES, **more})
    labels = [row.label for row in registered_rows()]
    assert "gae (lrp)" in labels
    assert not {"soon", "gae (soon)"} & set(labels)


def test_costly_methods_stay_away_from_long_inputs() -> None:
    for name in ("imdb", "movies", "imagenet", "pets", "gridpg"):
        assert not {row.method for row in PARTS[name].rows} & set(COSTLY)
    assert "attention_flow" in {row.method for row in PARTS["sst2"].rows}


def test_images_have_the_options_of_the_authors_scripts() -> None:
    rows = {row.label: row for row in PARTS["imagenet"].rows}
    assert rows["rollout"].options == {"start_layer": 1}
    assert rows["transformer_attribution"].options == {"start_layer": 1}
    assert not PARTS["sst2"].rows[2].options


def test_whole_sets_where_the_issue_asks_for_them() -> None:
    assert PARTS["sst2"].limit is None
    assert PARTS["imagenet"].limit == 500
    assert PARTS["pets"].limit is None
    assert PARTS["gridpg"].limit is None


def test_recognised_images_are_predicted_rightly_and_surely(tmp_path: Path) -> None:
    """Against one image at a time, at a threshold between the probabilities."""
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        image_size=8, patch_size=4, num_labels=3, initializer_range=1.0,
    )  # fmt: skip
    model = ViTForImageClassification(config).eval()
    loaded = Loaded(model, None, "tiny")
    samples = []
    for i in range(40):
        file = tmp_path / f"{i}.png"
        Image.effect_noise((8, 8), 20.0 + 5 * i).convert("RGB").save(file)
        samples.append(Sample(f"val/{i}", file, i % 3))
    assert recognised_images(samples, loaded, 1.01) == set()
    right = recognised_images(samples, loaded, 0.0)
    alone = [s.id for s in samples if recognised_images([s], loaded, 0.0)]
    assert right == set(alone)
    assert 0 < len(right) < 40
    sure = recognised_images(samples, loaded, 0.7)
    assert sure <= right


def test_questions_are_about_the_shape_in_their_mask() -> None:
    samples = question_samples(20)
    assert [one.id for one in question_samples(5)] == [one.id for one in samples[:5]]
    assert len({one.id for one in samples}) == 20
    for sample, (drawing, question) in zip(samples, held_out_questions(20), strict=True):
        assert drawing.number >= HELD_OUT
        assert (sample.inputs["text"], sample.label) == (question.text, question.answer)
        assert question.answer != "no"
        assert question.about is not None
        shape = drawing.shapes[question.about]
        assert shape.kind in question.text or shape.colour in question.text
        left, top, right, bottom = shape.box
        mask = sample.extras["mask"].read()
        assert mask.shape == sample.inputs["image"].size
        assert mask.sum() == mask[top:bottom, left:right].sum() == (right - left) * (bottom - top)


def test_questions_differ_with_the_seed() -> None:
    texts = [[one.inputs["text"] for one in question_samples(20, seed)] for seed in (0, 1)]
    assert texts[0] != texts[1]
