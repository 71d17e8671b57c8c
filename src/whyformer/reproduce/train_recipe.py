"""Train the model of a recipe. An interrupted training continues from its last checkpoint."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from whyformer.batching.progress import Progress, finish
from whyformer.datasets import Dataset, Sample
from whyformer.errors import InputError
from whyformer.models.quiet import quiet_transformers
from whyformer.models.versions import version_of
from whyformer.reproduce.checkpoint import Checkpoint, report_write_errors, write_file
from whyformer.reproduce.learners import (
    Learner,
    ModelInputs,
    digit_batch,
    digits_learner,
    language_learner,
    minilm,
    smiles_learner,
    text_batches,
)
from whyformer.reproduce.recipes import RECIPES, Recipe
from whyformer.reproduce.training_loop import (
    LabelledBatch,
    Schedule,
    build_optimiser,
    classification_loss,
    train_steps,
)

FACTS = "trained.json"
STATE = "state.safetensors"
EVERY = 120.0  # seconds between checkpoints
POOL = 50  # batches that are sorted by length together
MEASURED = 1000  # held-out samples on which the accuracy is measured


@dataclass(frozen=True)
class TrainedModel:
    """A trained model on disk, its accuracy, and how it was made."""

    folder: Path
    accuracy: float  # on held-out samples
    facts: dict[str, Any]


def train_recipe(
    recipe: Recipe, data: Path, models: Path, base: Path | None = None
) -> TrainedModel:
    """Return the recipe's model in a folder below `models`; train it if it is not there yet."""
    return finish(run_training(recipe, data, models, base))


def run_training(
    recipe: Recipe,
    data: Path,
    models: Path,
    base: Path | None = None,
    train_limit: int | None = None,
) -> Iterator[Progress | TrainedModel]:
    """Train as `train_recipe` does; yield progress after every step, and the model at the end.

    Args:
        recipe: What to train, and on what.
        data: The folder of all datasets.
        models: The folder of all models; an interrupted training continues from its checkpoint.
        base: The folder of the encoder to fine-tune; MiniLM-L6 if None.
        train_limit: The most training samples, also of the recipe that it starts from.
    """
    recipe = recipe.at_most(train_limit)
    folder = models / recipe.name
    facts = _training_facts(recipe, base)
    finished = _load_finished(folder, facts)
    if finished is not None:
        yield finished
        return
    start = base
    if recipe.kind == "minilm" and recipe.start:
        for event in run_training(RECIPES[recipe.start], data, models, base, train_limit):
            if isinstance(event, Progress):
                yield event
            else:
                start = event.folder
    yield Progress(f"reading {recipe.name}", 0, 0)
    train = _labelled_samples(recipe.open(data, "train", recipe.limit))
    rest = recipe.open(data, "test", MEASURED)
    held_out = _labelled_samples(rest)
    torch.manual_seed(0)
    model, processor = _learner(recipe, start, train, rest.labels)
    inputs_of = text_batches(processor, recipe.longest) if recipe.kind != "digits" else digit_batch
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint(folder / STATE, {**facts, "samples": len(train)})
    yield from _train(model, train, inputs_of, recipe, checkpoint)
    facts |= {
        "accuracy": _accuracy(model, held_out, inputs_of),
        "measured_on": f"{len(held_out)} samples of {recipe.test}",
        "samples": len(train),
        "torch": version_of("torch"),
        "transformers": version_of("transformers"),
    }
    with report_write_errors(folder), quiet_transformers():
        # The facts of an earlier recipe must not be kept with the weights of this one.
        (folder / FACTS).unlink(missing_ok=True)
        model.save_pretrained(folder)  # type: ignore[operator]
        processor.save_pretrained(folder)
    text = json.dumps(facts, indent=2) + "\n"
    write_file(folder / FACTS, lambda to: to.write_text(text, encoding="utf-8"))
    checkpoint.remove()
    yield TrainedModel(folder, facts["accuracy"], facts)


def _training_facts(recipe: Recipe, base: Path | None) -> dict[str, Any]:
    """Everything that the weights depend on: the recipe, and a hash of the base if it is used."""
    if base is None or recipe.kind != "minilm":
        return {"recipe": recipe.facts()}
    digest = hashlib.sha256()
    for file in sorted([*base.glob("*.safetensors"), *base.glob("*.json")]):
        digest.update(file.name.encode() + file.read_bytes())
    return {"recipe": recipe.facts(), "base": digest.hexdigest()[:32]}


def _load_finished(folder: Path, expected: dict[str, Any]) -> TrainedModel | None:
    """The finished model in the folder, if it was trained with these facts."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        same = {key: facts.get(key) for key in ("recipe", "base") if key in facts} == expected
        return TrainedModel(folder, float(facts["accuracy"]), facts) if same else None
    except (OSError, ValueError, KeyError, AttributeError):  # no facts, or facts in another format
        return None


def _labelled_samples(rows: Dataset) -> list[Sample]:
    """The samples with a label and a non-empty input; raise InputError if there are none."""
    found = [s for s in rows if isinstance(s.label, int) and s.inputs != ""]
    if not found:
        raise InputError(
            f"the split {rows.split!r} of {rows.name} has no labelled sample in its {len(rows)}"
            " rows",
            argument="data",
            remedy="Check the files",
        )
    return found


def _learner(
    recipe: Recipe, start: Path | None, train: Sequence[Sample], labels: Sequence[str]
) -> Learner:
    if recipe.kind == "smiles":
        return smiles_learner([str(sample.inputs) for sample in train], labels)
    if recipe.kind == "digits":
        return digits_learner(labels)
    return language_learner(start or minilm(), labels)


def _train(
    model: nn.Module,
    train: Sequence[Sample],
    inputs_of: Callable[[Sequence[Any]], ModelInputs],
    recipe: Recipe,
    checkpoint: Checkpoint,
) -> Iterator[Progress]:
    """Progress of the training, step by step; a checkpoint is written every two minutes."""
    order = [part for epoch in range(recipe.epochs) for part in _order(train, recipe.batch, epoch)]
    parameters = dict(model.named_parameters())
    optimiser = build_optimiser(model, recipe.peak)
    first = checkpoint.restore(parameters, optimiser)

    def batches() -> Iterator[LabelledBatch]:
        for step in range(first, len(order)):
            torch.manual_seed(step)  # dropout is the same after a restart
            yield _labelled_batch(train, order[step], inputs_of)

    schedule = Schedule(len(order), recipe.peak, rise=len(order) // 16)
    loss_of = partial(classification_loss, model)
    saved = time.monotonic()
    for step in train_steps(model, batches(), loss_of, optimiser, schedule, first=first):
        yield Progress(f"training {recipe.name}", step.number, len(order))
        if time.monotonic() - saved > EVERY:
            checkpoint.store(parameters, optimiser, step.number)
            saved = time.monotonic()
    model.eval()


def _labelled_batch(
    samples: Sequence[Sample],
    indices: Sequence[int],
    inputs_of: Callable[[Sequence[Any]], ModelInputs],
) -> LabelledBatch:
    batch = [samples[i] for i in indices]
    return inputs_of([s.inputs for s in batch]), torch.tensor([s.label for s in batch])


def _order(train: Sequence[Sample], size: int, epoch: int) -> list[list[int]]:
    """Indices of every sample once: shuffled, sorted by length within pools, batches shuffled.

    Not `plan_batches`: every batch is one step of the optimiser, so all have the same size, and
    samples are combined at random, not by cost.
    """
    generator = torch.Generator().manual_seed(epoch)
    shuffled = torch.randperm(len(train), generator=generator).tolist()
    lengths = [len(s.inputs) if isinstance(s.inputs, str) else 0 for s in train]
    pools = [shuffled[i : i + size * POOL] for i in range(0, len(shuffled), size * POOL)]
    batches = [
        pool[i : i + size]
        for pool in (sorted(pool, key=lengths.__getitem__) for pool in pools)
        for i in range(0, len(pool), size)
    ]
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


@torch.inference_mode()
def _accuracy(
    model: nn.Module,
    samples: Sequence[Sample],
    inputs_of: Callable[[Sequence[Any]], ModelInputs],
) -> float:
    right = 0
    for part in _order(samples, 32, 0):
        inputs, labels = _labelled_batch(samples, part, inputs_of)
        right += int((model(**inputs).logits.argmax(-1) == labels).sum())
    return right / len(samples)
