from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import whyformer as wf
from whyformer.errors import InputError, ModelError
from whyformer.explorer.catalogue import Catalogue, catalogue, menu
from whyformer.models.families import family_of


def test_all_bundled_models_are_offered_and_text_comes_first(offered: Catalogue) -> None:
    assert set(offered.entries) == set(wf.models())
    assert next(iter(offered.entries)) == "sst2"
    for entry in offered.entries.values():
        assert entry.reads == set(wf.models()[entry.name].streams)
        assert entry.examples


def test_only_detectors_are_asked_about_objects(offered: Catalogue) -> None:
    assert [entry.name for entry in offered.entries.values() if entry.detects] == ["detr_shapes"]
    for entry in offered.entries.values():
        family = family_of(entry.load().module)
        assert entry.detects == (family is not None and family.detects)


def test_models_that_write_text_say_so(offered: Catalogue) -> None:
    writing = {name for name, entry in offered.entries.items() if entry.writes}
    assert "caption_shapes" in writing
    assert not writing & {"sst2", "mnist", "lxmert_shapes", "clip_shapes", "detr_shapes"}
    assert {one["name"] for one in menu(offered) if one["writes"]} == writing


def test_a_language_model_with_images_is_offered_with_a_place_for_one(tmp_path: Path) -> None:
    folder = shutil.copytree(wf.models()["vlm_shapes"].folder, tmp_path / "mine")
    assert catalogue([str(folder)]).entries["mine"].reads == {"text", "image"}


def test_the_menu_names_no_path(offered: Catalogue) -> None:
    assert str(wf.models()["sst2"].folder.parent) not in repr(menu(offered))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny text model of the user's own, in a folder called as a bundled one."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=30, intermediate_size=8, max_position_embeddings=16, **small)
    BertForSequenceClassification(config).save_pretrained(tmp_path / "mine" / "sst2")
    return tmp_path / "mine" / "sst2"


def test_a_folder_is_offered_first_by_its_last_name(folder: Path) -> None:
    found = catalogue([str(folder)])
    assert list(found.entries)[:2] == ["sst2", "sst2 (2)"]
    assert found["sst2"].source == str(folder)
    assert found["sst2 (2)"].source == "sst2"
    assert str(folder.parent) not in repr(menu(found))


def test_a_bundled_model_that_is_named_comes_first() -> None:
    assert next(iter(catalogue(["mnist", "mnist"]).entries)) == "mnist"


def test_a_model_that_is_not_there_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no model"):
        catalogue([str(tmp_path / "nowhere")])


def test_a_model_is_loaded_once(offered: Catalogue) -> None:
    assert offered["mnist"].load() is offered["mnist"].load()


def test_a_name_that_is_not_offered_is_refused(offered: Catalogue, folder: Path) -> None:
    with pytest.raises(InputError, match="with --model NAME to add it"):
        offered[str(folder)]
