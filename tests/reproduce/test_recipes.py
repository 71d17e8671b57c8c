"""Recipes: who learns from what, and that nothing is learned from what is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reproduce.making import BACE, molecules, tweets
from whyformer.datasets import datasets, open_dataset
from whyformer.errors import InputError
from whyformer.reproduce.recipes import HELD_OUT, RECIPES, Recipe, recipe_of, split_source


@pytest.fixture
def data(tmp_path: Path) -> Path:
    molecules(tmp_path, 33)
    return tmp_path


def test_folds_are_disjoint_and_complete(data: Path) -> None:
    train, test = (BACE.open(data, split).ids() for split in ("train", "test"))
    assert not set(train) & set(test)
    everything = open_dataset(f"bace:{data / 'bace'}").ids()
    assert sorted(train + test) == sorted(everything)
    assert test == everything[::HELD_OUT]
    assert [sample.id for sample in BACE.open(data, "test")] == test


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_limit_is_kept_within_the_fold(data: Path, split: str) -> None:
    """Drawn from the fold, not from all of the data, of which the fold is a part."""
    everything = BACE.open(data, split).ids()
    some = BACE.open(data, split, 6).ids()
    assert len(some) == 6
    assert set(some) <= set(everything)
    assert some != everything[:6]
    assert some == BACE.open(data, split, 6).ids()
    assert set(BACE.open(data, split, 4).ids()) < set(some)  # a larger limit only adds
    assert BACE.open(data, split, 1000).ids() == everything


def test_a_limit_of_a_split(tmp_path: Path) -> None:
    tweets(tmp_path)
    recipe = RECIPES["emotion"]
    assert recipe.open(tmp_path, "train", 5).ids() == recipe.open(tmp_path, "train", 5).ids()
    assert len(recipe.open(tmp_path, "train", 5)) == 5
    assert {at.partition("/")[0] for at in recipe.open(tmp_path, "train").ids()} == {"train"}
    assert {at.partition("/")[0] for at in recipe.open(tmp_path, "test").ids()} == {"test"}


def test_options_reach_the_reader(tmp_path: Path) -> None:
    file = molecules(tmp_path)
    file.write_text(file.read_text().replace("Class", "p_np"))
    with pytest.raises(InputError, match="no column 'Class'"):
        BACE.open(tmp_path, "train")
    named = replace(BACE, data="bace:bace,label=p_np,smiles=mol")
    assert len(named.open(tmp_path, "train")) == 24


def test_the_path_may_hold_commas_and_colons(tmp_path: Path) -> None:
    odd = tmp_path / "a,label=b" / "c:d"
    file = molecules(odd)
    file.write_text(file.read_text().replace("Class", "p_np"))
    assert len(replace(BACE, data="bace:bace,label=p_np").open(odd, "train")) == 24


def test_parted() -> None:
    assert split_source("meld:meld,label=sentiment") == ("meld", "meld", {"label": "sentiment"})
    assert split_source("sst2:sst2") == ("sst2", "sst2", {})


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_every_recipe_can_be_followed(recipe: Recipe) -> None:
    """Its dataset, its splits and the recipe that it starts from exist."""
    name, place, options = split_source(recipe.data)
    known = datasets[name]
    known.check(options)
    assert place
    if "fold" in (recipe.train, recipe.test):
        assert (recipe.train, recipe.test, known.splits) == ("fold", "fold", ("all",))
    else:
        assert known.split(recipe.train) != known.split(recipe.test)
    assert recipe.kind in ("minilm", "smiles", "digits")
    assert not recipe.start or RECIPES[recipe.start].kind == recipe.kind == "minilm"
    assert recipe.longest <= 512


def test_a_note_names_the_numbers_of_its_recipe() -> None:
    for recipe in RECIPES.values():
        assert recipe.limit is None or f"{recipe.limit:,}" in recipe.note


def test_facts_are_what_decides_the_weights() -> None:
    recipe = RECIPES["mnist"]
    assert "note" not in recipe.facts()
    assert replace(recipe, note="other").facts() == recipe.facts()
    for change in ({"peak": 1.0}, {"epochs": 9}, {"limit": 1}, {"batch": 1}, {"longest": 1}):
        assert replace(recipe, **change).facts() != recipe.facts()  # type: ignore[arg-type]


def test_a_recipe_by_name() -> None:
    assert recipe_of("bace") is RECIPES["bace"]
    with pytest.raises(InputError, match=r"no recipe 'bach'\. Known: sst2, imdb, bace"):
        recipe_of("bach")
