"""Weights in 8 bits per row: what is written comes back, and nobody reads codes as weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from whyformer.errors import ModelError
from whyformer.models.bundled import ROOT
from whyformer.models.families import families
from whyformer.models.load import load_folder, load_model
from whyformer.models.packed_weights import (
    LEVELS,
    PACKED,
    pack_row_codes,
    read_packed,
    write_packed,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny BERT whose weights are stored in 8 bits."""
    model = families["bert"].tiny()
    model.save_pretrained(tmp_path)
    write_packed(model.state_dict(), tmp_path / PACKED)
    (tmp_path / "model.safetensors").unlink()
    return tmp_path


@pytest.mark.parametrize("shape", [(5, 7), (3, 2, 4, 4), (2, 1)])
def test_rounding_is_at_most_half_a_step_or_a_clipped_outlier(shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    codes, scale = pack_row_codes(weight)
    assert (codes.dtype, codes.shape, scale.shape) == (torch.int8, weight.shape, weight.shape[:1])
    steps = scale.view(-1, *[1] * (weight.ndim - 1))
    error = (codes * steps - weight).abs()
    inside = weight.abs() <= LEVELS * steps
    assert (error <= steps / 2 + 1e-7)[inside].all()


def test_clipping_never_loses_against_the_widest_scale() -> None:
    weight = torch.randn(20, 300, generator=torch.Generator().manual_seed(2))
    codes, scale = pack_row_codes(weight)
    widest = weight.abs().amax(1, keepdim=True) / LEVELS
    plain = ((weight / widest).round() * widest - weight).square().sum(1)
    assert ((codes * scale[:, None] - weight).square().sum(1) <= plain + 1e-9).all()


def test_a_row_of_zeros_stays_zero() -> None:
    codes, scale = pack_row_codes(torch.zeros(2, 3))
    assert not codes.any()
    assert scale.tolist() == [1, 1]


def test_a_packed_folder_is_loaded_near_its_weights(folder: Path) -> None:
    loaded = load_folder(folder, dtype=torch.float32)
    expected = families["bert"].tiny().state_dict()
    assert loaded.name_or_path == loaded.config.name_or_path == str(folder)
    for name, weight in loaded.state_dict().items():
        assert weight.dtype == torch.float32
        assert (weight - expected[name]).abs().max() <= expected[name].abs().max() / 100, name


def test_a_packed_folder_is_loaded_in_the_dtype_asked_for(folder: Path) -> None:
    assert load_model(str(folder), dtype="bfloat16").module.dtype == torch.bfloat16


def change(folder: Path, name: str, tensor: torch.Tensor | None) -> None:
    stored = load_file(folder / PACKED)
    del stored[name]
    if tensor is not None:
        stored[name] = tensor
    save_file(stored, folder / PACKED)


SCALED = "classifier.weight.scale"


@pytest.mark.parametrize("scale", [None, torch.ones(1), torch.ones(2, 2)])
def test_codes_without_their_scales_are_refused(folder: Path, scale: torch.Tensor | None) -> None:
    change(folder, SCALED, scale)
    with pytest.raises(ModelError, match=r"'classifier\.weight' has no scale for each row"):
        load_model(str(folder))


def test_a_scale_that_is_not_finite_is_refused(folder: Path) -> None:
    change(folder, SCALED, torch.tensor([1.0, torch.nan]))
    with pytest.raises(ModelError, match="has no scale for each row"):
        load_model(str(folder))


def test_a_missing_weight_is_refused(folder: Path) -> None:
    change(folder, "classifier.bias", None)
    with pytest.raises(ModelError, match=r"lack classifier\.bias"):
        load_model(str(folder))


def test_a_damaged_file_is_refused(folder: Path) -> None:
    (folder / PACKED).write_bytes(b"cut sho")
    with pytest.raises(ModelError, match="cannot be read"):
        load_model(str(folder))


def test_transformers_alone_does_not_read_codes_as_weights(folder: Path) -> None:
    from transformers import BertForSequenceClassification

    with pytest.raises(OSError, match=r"model\.safetensors"):
        BertForSequenceClassification.from_pretrained(folder)


def test_bundled_models_fit_into_thirty_megabytes() -> None:
    files = [path for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < 32e6  # 29 MB in a wheel, which compresses
    assert (ROOT / "sst2" / PACKED).is_file()
    assert read_packed(ROOT / "sst2" / PACKED)["classifier.weight"].dtype == torch.float32
