"""Training: what comes out can be explained, and a cut-off run ends with the very same weights."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import whyformer as wf
from tests.reproduce.making import BACE, EMOTION, MNIST, TINY, base, digits, molecules, tweets
from whyformer.errors import InputError, ModelError, WhyformerError
from whyformer.models.load import load_model
from whyformer.reproduce import learners
from whyformer.reproduce import train_recipe as module
from whyformer.reproduce.recipes import RECIPES, Recipe
from whyformer.reproduce.train_recipe import FACTS, STATE, TrainedModel, run_training, train_recipe

pytestmark = pytest.mark.slow

Make = Callable[..., TrainedModel]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small data of every kind, and a tiny BERT to begin with."""
    folder = tmp_path_factory.mktemp("data")
    molecules(folder)
    digits(folder)
    tweets(folder)
    base(folder / "base")
    return folder


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainedModel]:
    """Every recipe followed to its end, without a stop."""
    models = tmp_path_factory.mktemp("models")
    return {one.name: train_recipe(one, data, models, data / "base") for one in TINY}


class StoppedError(Exception):
    """What a test stops a training with."""


class Stop:
    """Ends a training after a number of steps, and remembers all steps."""

    def __init__(self, after: int | None = None) -> None:
        self.after = after
        self.steps: list[int] = []

    def train(
        self, recipe: Recipe, data: Path, models: Path, base: Path | None = None
    ) -> TrainedModel:
        """The trained model, unless the training was stopped."""
        for event in run_training(recipe, data, models, base):
            if isinstance(event, TrainedModel):
                return event
            if event.doing.startswith("training"):
                # A step comes before its checkpoint: the step before is the last on disk.
                self.steps.append(event.done)
                if event.done == self.after:
                    raise StoppedError
        raise AssertionError("a training ends with its model")


def same_weights(one: Path, other: Path) -> bool:
    left, right = (load_file(folder / "model.safetensors") for folder in (one, other))
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


RECIPE = pytest.mark.parametrize("recipe", TINY, ids=lambda recipe: recipe.name)


# -- what comes out --------------------------------------------------------------------------------


@RECIPE
def test_what_was_trained_can_be_explained(
    recipe: Recipe, whole: dict[str, TrainedModel], data: Path
) -> None:
    made = whole[recipe.name]
    sample = next(s for s in recipe.open(data, "test") if s.inputs)
    attribution = wf.explain(sample.inputs, model=str(made.folder))
    assert attribution.labels[0] in recipe.open(data, "test").labels
    assert attribution.scores.abs().sum() > 0
    names = {path.name for path in made.folder.iterdir()}
    assert {"config.json", "model.safetensors", FACTS} <= names
    assert STATE not in names
    assert not [name for name in names if name.startswith(".")]  # nothing half-written is left


@RECIPE
def test_the_accuracy_is_the_measured_one(
    recipe: Recipe, whole: dict[str, TrainedModel], data: Path
) -> None:
    """One sample at a time, through the stored files, as anybody would measure it."""
    made = whole[recipe.name]
    loaded = load_model(str(made.folder))
    held_out = [s for s in recipe.open(data, "test") if s.inputs]
    right = 0
    for sample in held_out:
        image = recipe.kind == "digits"
        given = {"images": sample.inputs} if image else {"text": sample.inputs}
        with torch.no_grad():
            logits = loaded.module(**loaded.processor(**given, return_tensors="pt")).logits
        right += int(logits.argmax()) == sample.label
    assert made.accuracy == right / len(held_out)
    facts = json.loads((made.folder / FACTS).read_text(encoding="utf-8"))
    assert facts["accuracy"] == made.accuracy
    assert facts["measured_on"] == f"{len(held_out)} samples of {recipe.test}"
    assert facts["samples"] == len(list(recipe.open(data, "train")))


@RECIPE
def test_something_is_learned(recipe: Recipe, data: Path, tmp_path: Path) -> None:
    """Twelve epochs over a few samples: the loss on them falls."""
    made = [
        train_recipe(replace(recipe, epochs=epochs), data, tmp_path / str(epochs), data / "base")
        for epochs in (1, 12)
    ]
    losses = []
    for one in made:
        loaded = load_model(str(one.folder))
        train = list(recipe.open(data, "train"))
        tokens = learners.text_batches(loaded.processor, 24) if recipe.kind != "digits" else None
        batch = (tokens or learners.digit_batch)([s.inputs for s in train])
        with torch.no_grad():
            logits = loaded.module(**batch).logits
        labels = torch.tensor([s.label for s in train])
        losses.append(float(torch.nn.functional.cross_entropy(logits, labels)))
    assert losses[1] < losses[0]


def test_a_finished_model_is_not_made_again(whole: dict[str, TrainedModel], data: Path) -> None:
    stop = Stop(after=1)
    for recipe in TINY:
        made = whole[recipe.name]
        again = stop.train(recipe, data, made.folder.parent, data / "base")
        assert again == made
    assert stop.steps == []


# -- cut off ---------------------------------------------------------------------------------------


@RECIPE
@pytest.mark.parametrize("after", [1, 3])
def test_a_stopped_training_ends_with_the_same_weights(
    recipe: Recipe,
    after: int,
    whole: dict[str, TrainedModel],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EVERY", 0)
    with pytest.raises(StoppedError):
        Stop(after).train(recipe, data, tmp_path, data / "base")
    assert not (tmp_path / recipe.name / FACTS).exists()
    stop = Stop()
    made = stop.train(recipe, data, tmp_path, data / "base")
    assert stop.steps[0] == after  # the step that was not stored, and none before it
    assert same_weights(made.folder, whole[recipe.name].folder)
    assert made.accuracy == whole[recipe.name].accuracy


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_weights(
    whole: dict[str, TrainedModel], data: Path, tmp_path: Path
) -> None:
    script = f"""
        import os, signal, torch
        from pathlib import Path
        from tests.reproduce.making import BACE
        from whyformer.reproduce import train_recipe as module
        torch.set_num_threads(1)
        module.EVERY = 0
        for event in module.run_training(BACE, Path({str(data)!r}), Path({str(tmp_path)!r})):
            if event.done == 4:
                os.kill(os.getpid(), signal.SIGKILL)
    """
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=root, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "bace" / STATE).is_file()
    stop = Stop()
    made = stop.train(BACE, data, tmp_path)
    assert stop.steps[0] == 4
    assert same_weights(made.folder, whole["bace"].folder)


def test_a_checkpoint_is_stored_every_now_and_then(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the usual two minutes between them a second leaves none."""
    with pytest.raises(StoppedError):
        Stop(after=3).train(BACE, data, tmp_path)
    assert not (tmp_path / "bace" / STATE).exists()


def test_the_state_of_another_recipe_counts_for_nothing(
    whole: dict[str, TrainedModel], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY", 0)
    with pytest.raises(StoppedError):
        Stop(after=4).train(replace(BACE, peak=0.5), data, tmp_path)
    stop = Stop()
    made = stop.train(BACE, data, tmp_path)
    assert stop.steps[0] == 1
    assert same_weights(made.folder, whole["bace"].folder)


def test_a_damaged_state_counts_for_nothing(
    whole: dict[str, TrainedModel], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY", 0)
    with pytest.raises(StoppedError):
        Stop(after=3).train(BACE, data, tmp_path)
    state = tmp_path / "bace" / STATE
    state.write_bytes(state.read_bytes()[:1000])
    made = train_recipe(BACE, data, tmp_path)
    assert same_weights(made.folder, whole["bace"].folder)


# -- what counts as finished -----------------------------------------------------------------------


def test_a_changed_recipe_is_trained_anew(data: Path, tmp_path: Path) -> None:
    first = train_recipe(MNIST, data, tmp_path)
    before = load_file(first.folder / "model.safetensors")
    changed = train_recipe(replace(MNIST, peak=1e-4), data, tmp_path)
    assert changed.folder == first.folder
    assert changed.facts["recipe"]["peak"] == 1e-4
    after = load_file(changed.folder / "model.safetensors")
    assert not all(torch.equal(before[name], after[name]) for name in before)
    stop = Stop()
    stop.train(replace(MNIST, peak=1e-4, note="a note decides nothing"), data, tmp_path)
    assert stop.steps == []


def test_another_base_is_another_model(data: Path, tmp_path: Path) -> None:
    other = base(tmp_path / "other", intermediate_size=32)
    train_recipe(EMOTION, data, tmp_path, data / "base")
    stop = Stop()
    made = stop.train(EMOTION, data, tmp_path, other)
    assert stop.steps
    assert load_model(str(made.folder)).module.config.intermediate_size == 32
    # What is trained from nothing does not ask for it.
    train_recipe(MNIST, data, tmp_path, data / "base")
    stop = Stop()
    stop.train(MNIST, data, tmp_path, other)
    assert stop.steps == []


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"recipe": 1}'])
def test_a_half_written_folder_is_not_taken_for_finished(
    data: Path, tmp_path: Path, text: str | None
) -> None:
    recipe = replace(MNIST, limit=8)
    folder = train_recipe(recipe, data, tmp_path).folder
    (folder / "model.safetensors").write_bytes(b"cut sho")
    (folder / FACTS).unlink()
    if text is not None:
        (folder / FACTS).write_text(text)
    stop = Stop()
    made = stop.train(recipe, data, tmp_path)
    assert stop.steps == [1]
    assert load_file(made.folder / "model.safetensors")


def test_facts_never_stand_beside_the_weights_of_another_recipe(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off between weights and facts, then back to the recipe before: it is trained again."""
    first = replace(MNIST, limit=8)
    train_recipe(first, data, tmp_path)

    def cut(path: Path, write: Any) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_file", cut)
        with pytest.raises(StoppedError):
            train_recipe(replace(first, peak=0.1), data, tmp_path)
    stop = Stop()
    stop.train(first, data, tmp_path)
    assert stop.steps == [1]


def test_a_recipe_starts_from_the_model_of_another(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECIPES, "emotion", EMOTION)
    second = replace(EMOTION, name="second", start="emotion", epochs=1, peak=1e-9)
    made = train_recipe(second, data, tmp_path, data / "base")
    started = load_file(tmp_path / "emotion" / "model.safetensors")
    ended = load_file(made.folder / "model.safetensors")
    assert all(torch.allclose(started[name], ended[name], atol=1e-6) for name in started)


# -- refusals --------------------------------------------------------------------------------------


def test_without_minilm_nothing_is_begun(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learners, "PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(ModelError, match="MiniLM-L6, which is not installed"):
        train_recipe(EMOTION, data, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_data_without_labels_are_told(tmp_path: Path) -> None:
    file = molecules(tmp_path)
    file.write_text("mol,Class\nCCO,\nCC,\nCN,\n")
    with pytest.raises(InputError, match="split 'all' of bace has no labelled sample in its 2"):
        train_recipe(BACE, tmp_path, tmp_path / "models")


def test_a_place_that_cannot_be_written_is_told(data: Path, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(WhyformerError, match=r"'.*models/bace' cannot be written: Not a directory"):
        train_recipe(BACE, data, tmp_path / "models")


def test_a_limit_on_training_samples_is_kept_and_noted(data: Path, tmp_path: Path) -> None:
    smaller = MNIST.at_most(2)
    assert smaller.limit == 2
    assert smaller.note == "trained on at most 2 samples"
    assert MNIST.at_most(None) is MNIST
    assert smaller.at_most(3) is smaller
    made = [e for e in run_training(MNIST, data, tmp_path, None, 2) if isinstance(e, TrainedModel)]
    assert made[0].facts["samples"] == 2
