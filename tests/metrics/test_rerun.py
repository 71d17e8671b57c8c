"""Reruns of the model: batched by length, and never twice for the same mask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import whyformer as wf
from tests.evaluation.making import classifier, sentences, shortened
from tests.several import (
    DETECTORS,
    NEEDS_DOUBLE,
    ONE_CLASS,
    columns_of,
    default_dtype,
    only,
    sources_of,
)
from tests.tiers import newer_are_slow
from whyformer.engine import rerun as module_under_test
from whyformer.engine.rerun import Grids, Rerun
from whyformer.errors import InputError, ModelError
from whyformer.inputs.prepare import prepare
from whyformer.inputs.removal import FILL_TEXTS, Removal
from whyformer.models.families import family_of
from whyformer.models.families.tiny import POOLS_AT_END, tiny_inputs, tiny_models
from whyformer.models.load import Loaded


def asking(
    loaded: Loaded, inputs: Any, fill: str | None = None, grids: Grids | None = None
) -> Rerun:
    family = family_of(loaded.module)
    prepared = prepare(inputs, loaded.module, loaded.processor, family)
    return Rerun(Removal(prepared, loaded.module, family, fill), grids)


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return classifier()


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [sample.inputs for sample in sentences(9)]


@pytest.fixture
def mask(loaded: Loaded, texts: list[str]) -> Tensor:
    found = loaded.processor(texts, padding=True, return_tensors="pt")["attention_mask"]
    return found.bool()


def drawn(mask: Tensor, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(mask.shape, generator=generator) < 0.6) & mask


@pytest.mark.parametrize("tokens", [4096, 12, 1])
def test_equal_to_one_at_a_time(
    loaded: Loaded, texts: list[str], mask: Tensor, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_under_test, "TOKENS", tokens)
    kept = drawn(mask)
    kept[:, 0] = True
    found = asking(loaded, texts)({"text": kept})
    ids = loaded.processor(texts, padding=True, return_tensors="pt")["input_ids"]
    for i in range(len(texts)):
        torch.testing.assert_close(found[i], shortened(loaded, ids[i], kept[i]))


def test_nothing_is_asked_twice(loaded: Loaded, texts: list[str], mask: Tensor) -> None:
    rerun = asking(loaded, texts)
    kept = drawn(mask)
    first = rerun({"text": kept})
    assert rerun.forwards == len(texts)
    assert torch.equal(rerun({"text": kept.clone()}), first)
    assert rerun.forwards == len(texts)
    other = kept.clone()
    other[3, 0] ^= True
    found = rerun({"text": other})
    assert rerun.forwards == len(texts) + 1
    unchanged = [i for i in range(len(texts)) if i != 3]
    assert torch.equal(found[unchanged], first[unchanged])


def test_the_same_mask_of_another_sample_is_another_question(loaded: Loaded) -> None:
    rerun = asking(loaded, ["good film", "bad plot"])
    found = rerun({"text": torch.ones(2, 4, dtype=torch.bool)})
    assert rerun.forwards == 2
    assert not torch.equal(found[0], found[1])


def test_long_masks_are_told_apart() -> None:
    loaded = classifier(max_position_embeddings=700)
    rerun = asking(loaded, ["good film " * 300])
    whole = torch.ones(1, 602, dtype=torch.bool)
    without = whole.clone()
    without[0, 555] = False
    assert not torch.equal(rerun({"text": whole}), rerun({"text": without}))
    assert rerun.forwards == 2


def test_what_is_remembered_has_an_end(
    loaded: Loaded, texts: list[str], mask: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_under_test, "REMEMBERED", 1)
    rerun = asking(loaded, texts)
    first, second = drawn(mask), drawn(mask, 1)
    once = rerun({"text": first})
    rerun({"text": second})
    torch.testing.assert_close(rerun({"text": first}), once)
    assert rerun.forwards == 3 * len(texts)


def test_streams_are_told_apart() -> None:
    module = tiny_models()["lxmert"][1]()
    inputs = tiny_inputs(module, (6, 6))
    inputs = {
        n: v[:, :5] if n not in ("visual_pos", "visual_feats") else v for n, v in inputs.items()
    }
    rerun = asking(Loaded(module, None, "tiny"), inputs)
    kept = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 0, 0, 1]]).bool()
    text, image = rerun({"text": kept}), rerun({"image": kept})
    assert rerun.forwards == 4
    assert not torch.allclose(text, image)


def test_regions_without_a_mask_run_by_number() -> None:
    # LXMERT's regions have no mask if every image has the same number.
    module = tiny_models()["lxmert"][1]().double()
    inputs = tiny_inputs(module, (6, 6, 6))
    inputs.pop("visual_attention_mask")
    rerun = asking(Loaded(module, None, "tiny"), inputs)
    kept = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 0, 0, 1], [0, 0, 0, 1, 0]]).bool()
    found = rerun({"image": kept})
    for i in range(3):
        one = {n: v[i : i + 1] for n, v in inputs.items()}
        one |= {n: one[n][:, kept[i]] for n in ("visual_feats", "visual_pos")}
        with torch.no_grad():
            alone = module(**one).question_answering_score
        torch.testing.assert_close(found[i : i + 1], alone)


def test_patches_and_pixels() -> None:
    module = tiny_models()["vit"][1]()
    inputs = tiny_inputs(module, (1, 1))
    rerun = asking(Loaded(module, None, "tiny"), inputs)
    rerun = rerun.with_grids_of(wf.explain(inputs, module, method="random", target=0))
    patches = torch.tensor([[1, 0, 1, 1, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1, 1, 1]]).bool()
    wide = patches.reshape(2, 3, 3).repeat_interleave(4, 1).repeat_interleave(4, 2).flatten(1)
    torch.testing.assert_close(rerun({"image": patches}), rerun({"image": wide}))
    with torch.no_grad():
        by_hand = module(inputs["pixel_values"] * wide.reshape(2, 1, 12, 12)).logits
    torch.testing.assert_close(rerun({"image": patches}), by_hand)


def test_the_smallest_images_have_patches_and_pixels_too() -> None:
    module = tiny_models()["vit"][1](image_size=2, patch_size=2)
    inputs = {"pixel_values": torch.randn(1, 3, 2, 2)}
    rerun = asking(Loaded(module, None, "tiny"), inputs)
    rerun = rerun.with_grids_of(wf.explain(inputs, module, method="random", target=0))
    patch = rerun({"image": torch.tensor([[True]])})
    pixel = rerun({"image": torch.tensor([[True, False, False, False]])})
    assert not torch.allclose(patch, pixel)


def test_how_gaps_are_filled_is_said(loaded: Loaded, texts: list[str]) -> None:
    assert asking(loaded, texts).fill_text("text") == f"drop: {FILL_TEXTS['drop']}"
    assert asking(loaded, texts, "mask").fill_text("text") == f"mask: {FILL_TEXTS['mask']}"


@pytest.mark.parametrize("fill", ["drop", "mask", "unknown", "zero", "mean"])
def test_all_fills_go_through(loaded: Loaded, texts: list[str], mask: Tensor, fill: str) -> None:
    found = asking(loaded, texts, fill)({"text": drawn(mask)})
    assert found.shape == (len(texts), 2)
    assert found.isfinite().all()


# Their softmax runs in float32 whatever the model's precision. MPT's bias counts from the end of
# the batch, padding included, so that padding changes the rounding.
NARROWED = {"mpt"}
# Their softmax or router is in float32, in the model's own forward. Some processors round a batch
# there in another order than a single sample.
SINGLE_SOFTMAX = {"longt5", "longt5_global", "switch_transformers", "t5gemma"}


@pytest.fixture
def double_by_default() -> Iterator[None]:
    with default_dtype(torch.float64):
        yield


@pytest.mark.parametrize("name", newer_are_slow(tiny_models()))
def test_a_batch_is_as_good_as_singles(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name in NEEDS_DOUBLE:
        request.getfixturevalue("double_by_default")
    if name in NARROWED:
        monkeypatch.setattr(Tensor, "float", Tensor.double)
    # Every family, every stream: neither padding nor the other samples change the logits.
    module = tiny_models()[name][1]().double()
    inputs = tiny_inputs(module, (8, 5))
    loaded = Loaded(module, None, "tiny")
    if name in DETECTORS | ONE_CLASS:
        with pytest.raises(ModelError, match="object queries"):
            asking(loaded, inputs)({"image": inputs["pixel_values"][:, 0].flatten(1) < torch.inf})
        return
    for source in sources_of(module):
        prepared = prepare(inputs, module, None, family_of(module)).of(source.stream)
        assert prepared is not None
        grid = prepared.grid or (3, 3)
        mask = torch.ones(2, grid[0] * grid[1]).bool() if prepared.mask is None else prepared.mask
        kept = drawn(mask, 1)
        kept[:, :2] = True
        if type(module).__name__ in POOLS_AT_END:
            kept |= prepared.arguments[source.carrier] == module.config.eos_token_id
        grids = {source.stream: grid}
        if source.kind == "tiles":
            with pytest.raises(InputError, match="no part of stream 'image' can be removed"):
                asking(loaded, inputs, grids=grids)({source.stream: kept})
            continue
        found = asking(loaded, inputs, grids=grids)({source.stream: kept})
        for i in range(2):
            alone = asking(loaded, only(module, inputs, i), grids=grids)
            padded = columns_of(module, source, inputs)
            stay = kept[i : i + 1, mask[i]] if padded else kept[i : i + 1]
            one = alone({source.stream: stay})
            loose = 1000 if name in SINGLE_SOFTMAX else 1
            torch.testing.assert_close(found[i : i + 1], one, rtol=loose * 1e-7, atol=loose * 1e-9)
