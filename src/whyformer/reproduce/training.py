"""Training that can be cut off: the same steps from the last checkpoint, safetensors only."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from whyformer.datasets import Sample
from whyformer.reproduce.learners import (
    Batch,
    Learner,
    digit_batch,
    digits_learner,
    language_learner,
    minilm,
    smiles_learner,
    text_batches,
)
from whyformer.reproduce.recipes import RECIPES, Recipe

FACTS = "trained.json"
STATE = "state.safetensors"
EVERY = 120.0  # seconds between checkpoints
POOL = 50  # batches that are sorted by length together
MEASURED = 1000  # samples of the held-out split that the accuracy is of
MOMENTS = ("exp_avg", "exp_avg_sq")

Told = Callable[[str, int, int], None]  # what is going on, steps done, steps in all


@dataclass(frozen=True)
class Trained:
    """A checkpoint that is ready to be explained, and what is known about it."""

    folder: Path
    accuracy: float  # on samples of the split that it never saw
    facts: dict[str, Any]


def trained(
    recipe: Recipe, data: Path, models: Path, base: Path | None = None, tell: Told | None = None
) -> Trained:
    """The recipe's model below `models`, trained now where it is not there yet."""
    folder = models / recipe.name
    known = _known(folder, recipe)
    if known is not None:
        return known
    say: Told = tell or (lambda doing, done, total: None)
    start = base
    if recipe.kind == "minilm" and recipe.start:
        start = trained(RECIPES[recipe.start], data, models, base, tell).folder
    say(f"reading {recipe.name}", 0, 0)
    train = _labelled(recipe.open(data, "train", recipe.limit))
    held_out = recipe.open(data, "test", MEASURED)
    torch.manual_seed(0)
    model, processor = _learner(recipe, start, train, held_out.labels)
    batch = text_batches(processor, recipe.longest) if recipe.kind != "digits" else digit_batch
    folder.mkdir(parents=True, exist_ok=True)
    _learn(model, train, batch, recipe, folder, say)
    accuracy = _accuracy(model, _labelled(held_out), batch)
    model.save_pretrained(folder)  # type: ignore[operator]
    processor.save_pretrained(folder)
    facts = {
        "recipe": recipe.facts(),
        "accuracy": accuracy,
        "measured_on": f"{min(MEASURED, len(held_out))} samples of {recipe.test}",
        "samples": len(train),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    _replace(folder / FACTS, lambda to: to.write_text(json.dumps(facts, indent=2) + "\n"))
    (folder / STATE).unlink(missing_ok=True)
    return Trained(folder, accuracy, facts)


def _known(folder: Path, recipe: Recipe) -> Trained | None:
    """The finished model, if it was made by this very recipe."""
    if not (folder / FACTS).is_file():
        return None
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    same = facts.get("recipe") == json.loads(json.dumps(recipe.facts()))
    return Trained(folder, facts["accuracy"], facts) if same else None


def _labelled(samples: Any) -> list[Sample]:
    """The samples that have a label and say something."""
    return [s for s in samples if isinstance(s.label, int) and s.inputs != ""]


def _learner(
    recipe: Recipe, start: Path | None, train: Sequence[Sample], labels: Sequence[str]
) -> Learner:
    if recipe.kind == "smiles":
        return smiles_learner([str(sample.inputs) for sample in train], labels)
    if recipe.kind == "digits":
        return digits_learner(labels)
    return language_learner(start or minilm(), labels)


def _learn(
    model: nn.Module,
    train: Sequence[Sample],
    batch: Callable[[Sequence[Any]], Batch],
    recipe: Recipe,
    folder: Path,
    say: Told,
) -> None:
    """AdamW with a linear rise and fall; the state is on disk every two minutes."""
    order = [part for epoch in range(recipe.epochs) for part in _order(train, recipe.batch, epoch)]
    named = dict(model.named_parameters())
    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in named.values() if p.ndim > 1], "weight_decay": 0.01},
            {"params": [p for p in named.values() if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=recipe.peak,
    )
    first = _restored(folder / STATE, named, optimiser)
    rise = max(1, len(order) // 16)
    saved = time.monotonic()
    model.train()
    for step in range(first, len(order)):
        torch.manual_seed(step)  # dropout is the same after a restart
        factor = min((step + 1) / rise, (len(order) - step) / (len(order) - rise or 1))
        for group in optimiser.param_groups:
            group["lr"] = recipe.peak * factor
        chosen = [train[i] for i in order[step]]
        logits = model(**batch([sample.inputs for sample in chosen])).logits
        loss = functional.cross_entropy(logits, torch.tensor([s.label for s in chosen]))
        loss.backward()
        nn.utils.clip_grad_norm_(named.values(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        say(f"training {recipe.name}", step + 1, len(order))
        if time.monotonic() - saved > EVERY:
            _store(folder / STATE, named, optimiser, step + 1)
            saved = time.monotonic()
    model.eval()


def _order(train: Sequence[Sample], size: int, epoch: int) -> list[list[int]]:
    """Every sample once: shuffled, sorted by length within pools, the batches shuffled again."""
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


def _store(path: Path, named: dict[str, Any], optimiser: torch.optim.Optimizer, step: int) -> None:
    tensors = {f"weight/{name}": p.detach().contiguous().clone() for name, p in named.items()}
    for name, parameter in named.items():
        for moment in MOMENTS:
            if moment in optimiser.state[parameter]:
                tensors[f"{moment}/{name}"] = optimiser.state[parameter][moment]
    _replace(path, lambda to: save_file(tensors, str(to), metadata={"step": str(step)}))


def _restored(path: Path, named: dict[str, Any], optimiser: torch.optim.Optimizer) -> int:
    """The step to go on from, with weights and moments as they were then; 0 for a new start."""
    if not path.is_file():
        return 0
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        step = int(file.metadata()["step"])
    tensors = load_file(str(path))
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(tensors[f"weight/{name}"])
            moments = {m: tensors[f"{m}/{name}"] for m in MOMENTS if f"{m}/{name}" in tensors}
            if moments:
                optimiser.state[parameter] = {"step": torch.tensor(float(step)), **moments}
    return step


def _replace(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes beside the file and then takes its place: it is whole or it is not there."""
    beside = path.with_name(f".{path.name}.new")
    write(beside)
    beside.replace(path)


@torch.inference_mode()
def _accuracy(
    model: nn.Module, samples: Sequence[Sample], batch: Callable[[Sequence[Any]], Batch]
) -> float:
    right = 0
    for part in _order(samples, 32, 0):
        logits: Tensor = model(**batch([samples[i].inputs for i in part])).logits
        right += int((logits.argmax(-1) == torch.tensor([samples[i].label for i in part])).sum())
    return right / len(samples)
