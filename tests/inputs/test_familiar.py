"""Inputs that a bundled model knows nothing about are named: other languages, photos."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy
import pytest
from PIL import Image

import whyformer as wf
from whyformer.errors import TrustWarning
from whyformer.inputs.familiar import TRAINING, unfamiliar_reasons
from whyformer.inputs.language import foreign_reason

FOREIGN = {
    "German": ["Der Film ist nicht besonders gut.", "Ein toller Film", "Ich fand es sehr schön"],
    "French": ["Ce film est vraiment très ennuyeux", "Une histoire magnifique"],
    "Spanish": ["La película es muy aburrida", "Me encantó esta película", "No me gustó nada"],
    "Italian": ["Il film è molto noioso", "Non mi è piaciuto per niente"],
    "Portuguese": ["O filme é muito chato", "Não gostei do final"],
    "Dutch": ["De film is erg saai", "Ik vond het niet goed"],
    "Swedish": ["Filmen är mycket tråkig", "Jag tyckte inte om den"],
    "Polish": ["Film jest bardzo nudny", "Nie podobało mi się"],
    "Turkish": ["Bu film gerçekten çok güzel"],
    "Vietnamese": ["Bộ phim này rất nhàm chán"],
}
ENGLISH = (
    "a gripping, beautifully acted film",
    "gripping",
    "men",
    "robert de niro",
    "gets bogged down over 140 minutes",
    "for god 's sake !",
    "la dolce vita is the best film i 've seen",
    "an über-violent con man",
    "arthur schnitzler 's reigen",
    "die hard was a hat trick in the war on us all",
)


@pytest.mark.parametrize(("language", "text"), [(k, t) for k, v in FOREIGN.items() for t in v])
def test_other_languages_are_named(language: str, text: str) -> None:
    assert foreign_reason(text) == f"looks {language}"


@pytest.mark.parametrize("text", ["Фильм очень скучный", "这部电影很无聊", "الفيلم ممل جدا"])
def test_other_scripts_are_named(text: str) -> None:
    assert foreign_reason(text) == "has mostly letters that are not Latin"


@pytest.mark.parametrize("text", [*ENGLISH, "", "123 !?", "x" * 30_000])
def test_english_and_nothing_at_all_pass(text: str) -> None:
    assert foreign_reason(text) is None


@pytest.mark.slow
def test_samples_of_bundled_models_pass() -> None:
    for name, model in wf.models().items():
        assert name in TRAINING
        for sample in model.samples():
            assert not unfamiliar_reasons(sample, name), (name, sample)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """Soft gradients in colour, as a JPEG: many colours, no black background."""
    rows, columns = numpy.mgrid[0:120, 0:160]
    pixels = numpy.stack([rows * 2, columns, (rows + columns) * 0.9], axis=2)
    path = tmp_path / "photo.jpg"
    Image.fromarray(pixels.astype(numpy.uint8)).save(path)
    return path


def test_a_photo_is_no_digit_and_no_drawing(photo: Path) -> None:
    assert unfamiliar_reasons(photo, "mnist") == {0: "the image is in colour"}
    assert unfamiliar_reasons(Image.open(photo).convert("L"), "mnist") == {
        0: "the image has a light background"
    }
    reasons = unfamiliar_reasons({"text": "what is it?", "image": photo}, "lxmert_shapes")
    assert reasons == {0: "the image has many colours, as a photo has"}
    pair = ("was ist das für ein Bild?", wf.models()["lxmert_shapes"].samples()[0]["image"])
    assert unfamiliar_reasons(pair, "lxmert_shapes") == {0: "the text looks German"}
    assert not unfamiliar_reasons(photo, "google/vit-base")


def test_a_default_model_that_does_not_fit_is_named_in_python(photo: Path) -> None:
    with pytest.warns(TrustWarning, match="No model was named, so that sst2 was used") as caught:
        found = wf.explain("Der Film ist nicht besonders gut")
    assert caught[0].filename == __file__
    assert found.trust.verdict == "sound with notes"
    assert "looks German, and sst2 was trained on English film reviews" in str(found.trust)
    with pytest.warns(TrustWarning, match="mnist was used"):
        assert "is in colour" in str(wf.explain(photo).trust)
    with pytest.warns(TrustWarning, match="looks German"):
        compared = wf.compare("Ein toller Film", methods=["gae"])
    assert "looks German" in str(compared[0].trust)


def test_several_inputs_say_which(photo: Path) -> None:
    texts = ["a good film", "Ein sehr guter Film", "the best"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = wf.explain(texts, "sst2")  # the user's choice: no warning, but a note
    assert [reason.samples for reason in found.trust.reasons if reason.kind == "inputs"] == [(1,)]
    assert found[0].trust.verdict == "sound"
    with pytest.warns(TrustWarning, match="looks German"):
        series = list(wf.explain(iter(texts)))
    assert [one.trust.verdict for one in series] == ["sound", "sound with notes", "sound"]
