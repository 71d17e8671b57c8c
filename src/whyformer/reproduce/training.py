"""Training that can be cut off: the same steps from the last checkpoint, safetensors only."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from whyformer.datasets import Dataset, Sample
from whyformer.errors import InputError
from whyformer.models.quiet import quiet_transformers
from whyformer.models.versions import version_of
from whyformer.reproduce.checkpoint import Checkpoint, replace, writing
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
    made_of = _made_of(recipe, base)
    known = _known(folder, made_of)
    if known is not None:
        return known
    say: Told = tell or (lambda doing, done, total: None)
    start = base
    if recipe.kind == "minilm" and recipe.start:
        start = trained(RECIPES[recipe.start], data, models, base, tell).folder
    say(f"reading {recipe.name}", 0, 0)
    train = _labelled(recipe.open(data, "train", recipe.limit))
    rest = recipe.open(data, "test", MEASURED)
    held_out = _labelled(rest)
    torch.manual_seed(0)
    model, processor = _learner(recipe, start, train, rest.labels)
    batch = text_batches(processor, recipe.longest) if recipe.kind != "digits" else digit_batch
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint(folder / STATE, {**made_of, "samples": len(train)})
    _learn(model, train, batch, recipe, checkpoint, say)
    facts = {
        **made_of,
        "accuracy": _accuracy(model, held_out, batch),
        "measured_on": f"{len(held_out)} samples of {recipe.test}",
        "samples": len(train),
        "torch": version_of("torch"),
        "transformers": version_of("transformers"),
    }
    with writing(folder), quiet_transformers():
        # Facts of an earlier recipe must not stand beside weights of this one.
        (folder / FACTS).unlink(missing_ok=True)
        model.save_pretrained(folder)  # type: ignore[operator]
        processor.save_pretrained(folder)
    text = json.dumps(facts, indent=2) + "\n"
    replace(folder / FACTS, lambda to: to.write_text(text, encoding="utf-8"))
    checkpoint.remove()
    return Trained(folder, facts["accuracy"], facts)


def _made_of(recipe: Recipe, base: Path | None) -> dict[str, Any]:
    """What decides which weights come out: the recipe, and the base where it is not MiniLM."""
    if base is None or recipe.kind != "minilm":
        return {"recipe": recipe.facts()}
    digest = hashlib.sha256()
    for file in sorted([*base.glob("*.safetensors"), *base.glob("*.json")]):
        digest.update(file.name.encode() + file.read_bytes())
    return {"recipe": recipe.facts(), "base": digest.hexdigest()[:32]}


def _known(folder: Path, made_of: dict[str, Any]) -> Trained | None:
    """The finished model, if it was made of just this."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        same = {key: facts.get(key) for key in ("recipe", "base") if key in facts} == made_of
        return Trained(folder, float(facts["accuracy"]), facts) if same else None
    except (OSError, ValueError, KeyError, AttributeError):  # none, or written by somebody else
        return None


def _labelled(rows: Dataset) -> list[Sample]:
    """The samples that have a label and say something; there is at least one."""
    found = [s for s in rows if isinstance(s.label, int) and s.inputs != ""]
    if not found:
        raise InputError(
            f"the split {rows.split!r} of {rows.name} has no labelled sample in its {len(rows)}"
            " rows, and nothing can be learned or measured without; check the files"
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


def _learn(
    model: nn.Module,
    train: Sequence[Sample],
    batch: Callable[[Sequence[Any]], Batch],
    recipe: Recipe,
    checkpoint: Checkpoint,
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
    first = checkpoint.restored(named, optimiser)
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
            checkpoint.store(named, optimiser, step + 1)
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


@torch.inference_mode()
def _accuracy(
    model: nn.Module, samples: Sequence[Sample], batch: Callable[[Sequence[Any]], Batch]
) -> float:
    right = 0
    for part in _order(samples, 32, 0):
        logits: Tensor = model(**batch([samples[i].inputs for i in part])).logits
        right += int((logits.argmax(-1) == torch.tensor([samples[i].label for i in part])).sum())
    return right / len(samples)
