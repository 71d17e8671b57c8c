"""`reproduce`: what is there is done, what is not is listed, and nothing is done twice."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from tests.reproduce import making
from tests.reproduce.making import (
    BACE,
    EMOTION,
    MNIST,
    SIZES,
    answerer,
    base,
    digits,
    molecules,
    questions,
    regions,
    tweets,
)
from whyformer.batching.progress import Progress
from whyformer.errors import InputError, OptionError
from whyformer.evaluation.results import ResultKey, Results
from whyformer.models.load import load_model
from whyformer.reproduce import learners
from whyformer.reproduce import reproduce as module
from whyformer.reproduce.experiments import EXPERIMENTS
from whyformer.reproduce.recipes import RECIPES
from whyformer.reproduce.reproduce import Outcome, collect, reproduce, run_experiment
from whyformer.reproduce.table import markdown

pytestmark = pytest.mark.slow

ALI = EXPERIMENTS["ali2022"]
SEVERAL = EXPERIMENTS["chefer2021-multimodal"]
FAST = ["gradient_x_input", "random"]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes that take a second."""
    for recipe in (BACE, MNIST, EMOTION):
        monkeypatch.setitem(RECIPES, recipe.name, recipe)


def outcomes(found: list[Outcome]) -> dict[str, Outcome]:
    return {one.part.name: one for one in found}


# -- what is missing -------------------------------------------------------------------------------


def test_without_data_everything_is_listed(tmp_path: Path) -> None:
    found = outcomes(reproduce(ALI, tmp_path, tmp_path / "out"))
    assert list(found) == [part.name for part in ALI.parts]
    assert all(one.results is None for one in found.values())
    assert found["sst2"].missing == "the data folder has no sst2"
    assert found["emotion"].missing == "the data folder has no tweeteval/emotion"
    assert not (tmp_path / "out").exists()  # nothing was begun
    table = markdown(ALI, list(found.values()))
    for part in ALI.parts:
        assert f"- {part.title}: the data folder has no" in table
    assert "SEMAINE" in table


def test_everything_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    vision = EXPERIMENTS["chefer2021-vision"]
    found = outcomes(reproduce(vision, tmp_path, tmp_path / "out"))
    message = "the data folder has no pets-segmentation and no deit-tiny"
    assert found["segmentation"].missing == message
    (tmp_path / "deit-tiny").mkdir()
    found = outcomes(reproduce(vision, tmp_path, tmp_path / "out"))
    message = "the data folder has no pets-segmentation"
    assert found["segmentation"].missing == message


def test_a_part_with_broken_files_does_not_stop_the_others(tmp_path: Path, tiny: None) -> None:
    molecules(tmp_path)
    (tmp_path / "sst2").mkdir()  # and nothing in it
    digits(tmp_path)
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte").write_bytes(b"no idx")
    found = outcomes(
        reproduce(ALI, tmp_path, tmp_path / "out", parts=["sst2", "bace", "mnist"], methods=FAST)
    )
    assert "has no dev.tsv" in found["sst2"].missing
    assert "t10k-images-idx3-ubyte is not an idx file" in found["mnist"].missing
    assert found["bace"].results is not None


def test_without_minilm_the_others_are_done(
    tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learners, "PACKAGE", "a_package_that_nobody_has")
    molecules(tmp_path)
    tweets(tmp_path)
    chosen = {"parts": ["emotion", "bace"], "methods": FAST, "limit": 2}
    found = outcomes(reproduce(ALI, tmp_path, tmp_path / "out", **chosen))  # type: ignore[arg-type]
    assert "MiniLM-L6, which is not installed" in found["emotion"].missing
    assert found["bace"].results is not None


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path, tiny: None) -> None:
    tweets(tmp_path)
    labels = tmp_path / "tweeteval" / "emotion" / "test_labels.txt"
    labels.write_text(labels.read_text().replace("2", "x", 1))
    base(tmp_path / "base")
    (one,) = reproduce(
        ALI, tmp_path, tmp_path / "out", parts=["emotion"], methods=FAST, base=tmp_path / "base"
    )
    assert one.results is not None
    assert one.results.settings["data"]["samples"] == 4  # of six
    assert "1 row left out: cannot be read; 1 row left out: empty" in one.differences


def test_data_of_which_nothing_can_be_read_are_told(tmp_path: Path, tiny: None) -> None:
    vision = EXPERIMENTS["chefer2021-vision"]
    import transformers

    from whyformer.models.families.tiny import tiny_models

    model: Any = tiny_models()["vit"][1]()
    model.save_pretrained(tmp_path / "deit-tiny")
    transformers.ViTImageProcessorPil(size={"height": 12, "width": 12}).save_pretrained(
        tmp_path / "deit-tiny"
    )
    (tmp_path / "imagenet-val" / "images").mkdir(parents=True)
    text = "file,imagenet_index,wnid,name\nimages/a.jpg,1,n01440764,tench\n"
    (tmp_path / "imagenet-val" / "index.csv").write_text(text)
    (one,) = reproduce(vision, tmp_path, tmp_path / "out", parts=["perturbation"])
    assert one.results is None
    assert "can be read; the first: " in one.missing
    assert "a.jpg" in one.missing


# -- what is asked for -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "error", "message"),
    [
        ({"parts": ["mnst"]}, InputError, "ali2022 has no part 'mnst'. Did you mean 'mnist'?"),
        ({"methods": ["geo"]}, InputError, "has no method 'geo'. Did you mean"),
        ({"methods": ["full_lrp"]}, InputError, "has no method 'full_lrp'."),
        ({"limit": 0}, OptionError, "limit=0 leaves no sample"),
        ({"limit": -3}, OptionError, "limit=-3 leaves no sample"),
        ({"base": Path("nowhere")}, InputError, "the base 'nowhere' is not a model folder"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused_before_any_work(
    tmp_path: Path, tiny: None, wish: dict[str, Any], error: type[Exception], message: str
) -> None:
    molecules(tmp_path)
    with pytest.raises(error) as caught:
        reproduce(ALI, tmp_path, tmp_path / "out", **wish)
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_parts_methods_and_limit(tmp_path: Path, tiny: None) -> None:
    molecules(tmp_path, 60)
    digits(tmp_path)
    wish: dict[str, Any] = {"methods": ["lrp_ah", "Random"], "limit": 3}
    found = reproduce(ALI, tmp_path, tmp_path / "out", parts=["mnist", "bace"], **wish)
    assert [one.part.name for one in found] == ["bace", "mnist"]  # in the paper's order
    for one in found:
        assert one.results is not None
        assert one.results.methods == ("Random", "LRP (AH)")
        assert one.results.metrics == ("auac", "conservation")
        assert one.results.targets == ("label",)
        assert len(one.results.samples(ResultKey("Random", "label", "auac"))) == 3
        assert one.model == one.part.name
        assert one.accuracy is not None
        folder = tmp_path / "out" / "ali2022" / one.part.name
        assert Results.read(folder).settings["part"] == one.part.name
        assert str(tmp_path) not in (folder / "settings.json").read_text()


def test_what_is_done_is_not_done_again(
    tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    molecules(tmp_path)
    wish: dict[str, Any] = {"parts": ["bace"], "methods": FAST, "limit": 4}
    (first,) = reproduce(ALI, tmp_path, tmp_path / "out", **wish)
    *done, again = run_experiment(ALI, tmp_path, tmp_path / "out", **wish)
    assert isinstance(again, Outcome)
    assert first.results is not None
    assert again.results is not None
    assert again.results.rows == first.results.rows
    assert {(event.part, event.doing) for event in done if isinstance(event, Progress)} == {
        ("BACE", "reading samples"),
        ("BACE", "writing the report"),
    }


def test_the_part_s_own_limit_holds_without_another(
    tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    molecules(tmp_path, 60)
    part = replace(ALI.parts[2], limit=5)
    (one,) = reproduce(replace(ALI, parts=(part,)), tmp_path, tmp_path / "out", methods=FAST)
    assert one.results is not None
    assert one.results.settings["data"]["samples"] == 5


# -- models that read text and images --------------------------------------------------------------


@pytest.mark.slow
def test_bundled_models_stand_in(tmp_path: Path) -> None:
    found = outcomes(
        reproduce(SEVERAL, tmp_path, tmp_path / "out", methods=["gae", "random"], limit=3)
    )
    assert len(found) == 8
    for name, one in found.items():
        if "vqa" in name:
            assert "the data folder has no vqa" in one.missing
            continue
        assert one.results is not None
        assert one.results.settings["data"]["samples"] == 3
        assert one.results.methods == ("GAE", "random")
        assert one.results.metrics == ("perturbation_negative", "perturbation_positive")
        conventions = [m["convention"] for m in one.results.settings["metrics"].values()]
        assert all(f"tokens of '{name.rpartition('-')[2]}'" in message for message in conventions)
        assert any("stands in for VQA" in message for message in one.differences)


Seen = list[dict[str, Any]]


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The arguments of every forward pass of the models that `reproduce` loads."""
    record: Seen = []

    def load(*wanted: Any) -> Any:
        loaded = load_model(*wanted)
        loaded.module.register_forward_pre_hook(
            lambda _, args, kwargs: record.append(kwargs), with_kwargs=True
        )
        return loaded

    monkeypatch.setattr(module, "load_model", load)
    return record


@pytest.mark.parametrize("counts", [(5, 5, 5, 5), (5, 3, 6, 4)], ids=["alike", "differing"])
def test_lxmert_reads_the_published_files(tmp_path: Path, seen: Seen, counts: Any) -> None:
    questions(tmp_path, counts)
    answerer(tmp_path / "lxmert-vqa", "lxmert")
    parts = ["lxmert-vqa-image", "lxmert-vqa-text"]
    found = reproduce(SEVERAL, tmp_path, tmp_path / "out", parts=parts, methods=["gae", "random"])
    for one in found:
        assert one.missing == ""
        assert one.results is not None
        assert one.results.settings["data"]["samples"] == 4
        assert one.results.settings["model"]["family"] == "lxmert"
    alone = [asked for asked in seen if len(asked["input_ids"]) == 1]
    for image in (1, 2, 3, 4):
        features, boxes = (torch.from_numpy(part) for part in regions(image, counts[image - 1]))
        height, width = SIZES[image - 1]
        shares = boxes / torch.tensor([width, height, width, height])
        own = [one for one in alone if same_values(one["visual_feats"][0], features)]
        assert own, f"image {image} was not read"
        torch.testing.assert_close(own[0]["visual_pos"][0], shares)
        assert 0 <= shares.min() <= shares.max() <= 1


def test_a_batch_of_differing_regions_equals_one_at_a_time(tmp_path: Path) -> None:
    answerer(tmp_path / "lxmert-vqa", "lxmert")
    questions(tmp_path, (5, 3, 6, 4))
    wish: dict[str, Any] = {"parts": ["lxmert-vqa-image"], "methods": ["gae"]}
    together = _explained(tmp_path, [0, 1, 2, 3])
    for row in range(4):
        alone = _explained(tmp_path, [row])
        for name in ("text", "image"):
            real = alone.streams[name].mask[0]
            scores = together.streams[name].scores[row][: len(real)]
            assert torch.allclose(scores, alone.streams[name].scores[0], atol=1e-5)
            assert together.streams[name].mask[row].sum() == real.sum()
    assert reproduce(SEVERAL, tmp_path, tmp_path / "out", **wish)[0].results is not None


def _explained(data: Path, chosen: list[int]) -> Any:
    import whyformer as wf
    from whyformer.datasets import open_dataset
    from whyformer.evaluation.collation import inputs_of

    loaded = load_model(str(data / "lxmert-vqa"))
    samples = list(open_dataset(f"vqa:{data / 'vqa'}", features=str(data / "vqa/regions.tsv")))
    inputs = inputs_of([samples[i] for i in chosen], loaded)
    return wf.explain(inputs, loaded.module, method="gae", target=2, processor=loaded.processor)


def test_visualbert_reads_the_published_files(tmp_path: Path, seen: Seen) -> None:
    questions(tmp_path)
    answerer(tmp_path / "visualbert-vqa", "visual_bert")
    found = reproduce(
        SEVERAL, tmp_path, tmp_path / "out", parts=["visualbert-vqa-image"], methods=["gae"]
    )
    assert found[0].results is not None
    alone = [asked for asked in seen if len(asked["input_ids"]) == 1]
    for image in (1, 2, 3, 4):
        features = torch.from_numpy(regions(image)[0])
        assert any(same_values(one["visual_embeds"][0], features) for one in alone)


def test_features_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    questions(tmp_path)
    answerer(tmp_path / "lxmert-vqa", "lxmert")
    (tmp_path / "vqa" / "regions.tsv").unlink()
    (one,) = reproduce(SEVERAL, tmp_path, tmp_path / "out", parts=["lxmert-vqa-text"])
    assert "no region features at" in one.missing
    questions(tmp_path)
    base(tmp_path / "visualbert-vqa")  # a model of text alone
    (one,) = reproduce(SEVERAL, tmp_path, tmp_path / "out", parts=["visualbert-vqa-text"])
    assert "features of image regions, which BertForSequenceClassification does not" in one.missing


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ((1, 2, 3, 4), r"visual_feats.* 13"),
        ((2,), r"visual_feats.* 13|and 13 in another"),
    ],
)
def test_features_of_another_width_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: tuple[int, ...], message: str
) -> None:
    def wider(image: int, count: int = 5) -> Any:
        features, boxes = regions(image, count)
        more = numpy.zeros((count, 1), numpy.float32)
        return numpy.hstack([features, more]) if image in odd else features, boxes

    monkeypatch.setattr(making, "regions", wider)
    questions(tmp_path)
    answerer(tmp_path / "lxmert-vqa", "lxmert")
    (one,) = reproduce(SEVERAL, tmp_path, tmp_path / "out", parts=["lxmert-vqa-text"])
    # If all samples fail, the part is missing; a single one is left out and listed.
    listed = one.missing or str(one.results and one.results.failures)
    assert re.search(message, listed)
    if len(odd) == 1:
        with pytest.raises(InputError, match="12 features in one image and 13 in another"):
            _explained(tmp_path, [0, 1])


# -- real data -------------------------------------------------------------------------------------


@pytest.mark.data
def test_real_molecules_and_digits(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The published recipes on the published files, only shorter."""
    monkeypatch.setitem(RECIPES, "bace", replace(RECIPES["bace"], limit=64, epochs=1))
    monkeypatch.setitem(RECIPES, "mnist", replace(RECIPES["mnist"], limit=256, epochs=1))
    monkeypatch.setattr("whyformer.reproduce.train_recipe.MEASURED", 64)
    found = reproduce(
        ALI, data, tmp_path, parts=["bace", "mnist"], methods=["gae", "lrp_ah_ln"], limit=6
    )
    for one in found:
        assert one.missing == ""
        assert one.results is not None
        assert one.results.settings["data"]["samples"] == 6
        assert one.accuracy is not None
        assert 0 <= one.accuracy <= 1
    table = markdown(ALI, found)
    assert "| method | BACE | paper | MNIST | paper |" in table
    assert "| 0.675 |" in table
    assert "| 0.426 |" in table


# -- parts that were run apart ---------------------------------------------------------------------


def test_finished_parts_are_collected_without_running(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    molecules(tmp_path)
    out = tmp_path / "out"
    with pytest.raises(InputError, match="no part of ali2022 is finished"):
        collect(ALI, out)
    ran = reproduce(ALI, tmp_path, out, parts=["bace"], methods=FAST, limit=2)
    monkeypatch.setattr(module, "run_evaluation", None)
    found = collect(ALI, out)
    assert [one.part.name for one in found] == [part.name for part in ALI.parts]
    (bace,) = (one for one in found if one.results is not None)
    assert (bace.model, bace.accuracy) == (ran[0].model, ran[0].accuracy)
    assert bace.differences == ran[0].differences
    assert markdown(ALI, [bace]) == markdown(ALI, ran)
    assert all(one.missing == "not finished" for one in found if one is not bace)
