"""Recipes: the classifier for each dataset of the papers, and how to train it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from whyformer.datasets import Dataset, open_dataset
from whyformer.errors import InputError

HELD_OUT = 5  # every fifth sample is held out, if the data has no splits


@dataclass(frozen=True)
class Recipe:
    """One classifier: its start, its data, and the length of its training."""

    name: str
    data: str  # "name:place", the place is a folder in the data folder
    kind: str  # minilm: fine-tuned; smiles and digits: trained from scratch
    train: str  # the split to train on
    test: str  # the split to evaluate on
    start: str = ""  # the recipe whose model it starts from, if not MiniLM
    bundled: str = ""  # the bundled model to use instead of training one
    limit: int | None = None  # training samples, drawn with seed 0; None for all
    longest: int = 128  # tokens of a text; longer texts are cut
    epochs: int = 1
    batch: int = 32
    peak: float = 8e-5  # the highest learning rate
    note: str = ""  # a remark for the table

    def open(self, folder: Path, split: str, limit: int | None = None) -> Dataset:
        """Open the samples of "train" or "test"; a limited number is drawn with seed 0."""
        name, place, options = split_source(self.data)
        source = f"{name}:{folder / place}"
        name_of_split = {"train": self.train, "test": self.test}[split]
        if name_of_split != "fold":
            return open_dataset(
                source, name_of_split, limit=limit, seed=0, on_error="skip", **options
            )
        whole = open_dataset(source, on_error="skip", **options)
        ids = whole.ids()
        held = set(ids[::HELD_OUT])
        members = [at for at in ids if (at in held) == (split == "test")]
        return whole.subset(sorted(members, key=_rank)[:limit])

    def at_most(self, samples: int | None) -> Recipe:
        """Return the recipe with at most this number of training samples; None changes nothing."""
        if samples is None or (self.limit is not None and self.limit <= samples):
            return self
        return replace(self, limit=samples, note=f"trained on at most {samples:,} samples")

    def facts(self) -> dict[str, Any]:
        """Return everything that the trained weights depend on."""
        return {k: v for k, v in asdict(self).items() if k not in ("note", "bundled")}


def split_source(data: str) -> tuple[str, str, dict[str, Any]]:
    """Return the name, the place and the options of "name:place,option=value"."""
    name, _, rest = data.partition(":")
    place, *options = rest.split(",")
    return name, place, dict(option.split("=", 1) for option in options)


def _rank(at: str) -> bytes:
    """The rank of a sample in a draw, from its id alone: a larger limit only adds samples."""
    return hashlib.sha256(f"0/{at}".encode()).digest()


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("sst2", "sst2:sst2", "minilm", "train", "dev", bundled="sst2", epochs=1),
        Recipe(
            "imdb", "imdb:imdb", "minilm", "train", "test",
            limit=5000, longest=256, batch=16,
            note="trained on 5,000 reviews, cut at 256 tokens",
        ),
        Recipe("bace", "bace:bace", "smiles", "fold", "fold", epochs=40, peak=1e-3,
               note="every fifth molecule is held out"),
        Recipe("mnist", "mnist:mnist", "digits", "train", "test", limit=30000, epochs=3,
               batch=64, peak=2e-3, note="trained on 30,000 digits"),
        Recipe("emotion", "tweeteval:tweeteval/emotion", "minilm", "train", "test", epochs=4),
        Recipe("hate", "tweeteval:tweeteval/hate", "minilm", "train", "test",
               limit=6000, epochs=2, note="trained on 6,000 tweets"),
        Recipe("sentiment", "tweeteval:tweeteval/sentiment", "minilm", "val", "test",
               epochs=4, note="trained on the 2,000 tweets of val, not on train"),
        Recipe("meld", "meld:meld,label=sentiment", "minilm", "train", "test", epochs=3),
        Recipe("movies", "eraser:eraser-movies", "minilm", "train", "test",
               start="imdb", limit=800, longest=512, batch=8, peak=4e-5,
               note="trained on 800 reviews, starting from the model of IMDB"),
    )
}  # fmt: skip


def recipe_of(name: str) -> Recipe:
    """Return the recipe of that name."""
    if name not in RECIPES:
        raise InputError(f"there is no recipe {name!r}. Known: {', '.join(RECIPES)}")
    return RECIPES[name]
