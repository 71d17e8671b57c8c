"""Every method on every family: alone or in a batch, padded or not, fused or eager, any precision.

Both sides of the matrix come from the registries, so a new method or family is covered by existing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.families.tiny import tiny_inputs, tiny_models

LENGTHS = (7, 5)
# Of the batch's largest score. In float64 nothing excuses a difference; float32 rounds.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
# LRP divides by sums that nearly cancel, and what was rounded away comes back multiplied.
LRP_TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-3}
QUICK = {"steps": 2}  # for methods that repeat a pass: as often as they must

pytestmark = [
    pytest.mark.parametrize("method", wf.methods()),
    pytest.mark.parametrize("name", tiny_models()),
]


@cache
def model_of(name: str, dtype: torch.dtype = torch.float64, attention: str | None = None) -> Any:
    builder = tiny_models()[name][1]
    changes = {} if attention is None else {"attn_implementation": attention}
    return builder(**changes).to(dtype)


def explain(method: str, model: nn.Module, inputs: dict[str, Tensor]) -> wf.Attribution:
    known = wf.methods()[method].options
    options = {name: value for name, value in QUICK.items() if name in known}
    return wf.explain(inputs, model, method=method, target=1, **options)


@cache
def in_batch(name: str, method: str, dtype: torch.dtype = torch.float64) -> wf.Attribution:
    """The batch that everything else is held against: padded right, fused if the model can."""
    model = model_of(name, dtype)
    return explain(method, model, tiny_inputs(model, LENGTHS))


def is_lrp(method: str) -> bool:
    return "rules" in wf.methods()[method].options


def assert_same(actual: Tensor, expected: Tensor, batch: wf.Attribution, loose: float = 1) -> None:
    """Equal within what the precision promises of the batch's largest score."""
    largest = batch.scores.abs().max().item()
    assert largest > 0, "an explanation of nothing but zeros would equal any other"
    assert actual.isfinite().all()
    promised = LRP_TOLERANCE if is_lrp(batch.method) else TOLERANCE
    atol = promised[actual.dtype] * largest * loose
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def is_text(name: str) -> bool:
    return tiny_models()[name][0].stream == "text"


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
def test_batch_equals_singles(name: str, method: str, dtype: torch.dtype) -> None:
    model = model_of(name, dtype)
    together = in_batch(name, method, dtype)
    inputs = tiny_inputs(model, LENGTHS)
    for i, length in enumerate(LENGTHS):
        if dtype == torch.float32 and i == 0:
            continue  # the padded sample tells; double precision tries both
        row = slice(0, length) if is_text(name) else slice(None)
        one = {
            key: value[i : i + 1] if key == "pixel_values" else value[i : i + 1, row]
            for key, value in inputs.items()
        }
        alone = explain(method, model, one)
        assert_same(alone.scores, together[i].scores, together)
        torch.testing.assert_close(alone.output, together[i].output, rtol=1e-4, atol=1e-5)
        assert together.target[i] == alone.target[0] == 1


def test_padding_changes_nothing(name: str, method: str) -> None:
    """More padding than needed, to the right and to the left; an image's batch has none."""
    model = model_of(name)
    together = in_batch(name, method)
    if not is_text(name):
        assert together.streams["image"].mask.all()
        return
    for padding in ("right", "left"):
        inputs = tiny_inputs(model, (*LENGTHS, 9), padding=padding)
        padded = explain(method, model, inputs)
        real = inputs["attention_mask"].bool()
        assert torch.equal(padded.streams[padded.main].mask, real)
        assert (padded.scores[~real] == 0).all()
        for i, length in enumerate(LENGTHS):
            assert_same(padded.scores[i, real[i]], together.scores[i, :length], together)


def test_eager_equals_fused(name: str, method: str) -> None:
    eager = model_of(name, attention="eager")
    found = explain(method, eager, tiny_inputs(eager, LENGTHS)).scores
    expected = in_batch(name, method)
    # The kernels round differently to begin with.
    assert_same(found, expected.scores, expected, loose=100)
    assert eager.config._attn_implementation == "eager"


def test_halves_run(name: str, method: str) -> None:
    """bfloat16 has eight bits of mantissa: that it runs, finitely and in shape, is the claim."""
    attribution = in_batch(name, method, torch.bfloat16)
    assert attribution.scores.shape == in_batch(name, method).scores.shape
    assert attribution.scores.isfinite().all()
    assert attribution.output.isfinite().all()


def test_single_precision_gives_the_map_of_double(name: str, method: str) -> None:
    single, double = in_batch(name, method, torch.float32).scores, in_batch(name, method).scores
    atol = (1e-2 if is_lrp(method) else 1e-3) * double.abs().max().item()
    torch.testing.assert_close(single.double(), double.double(), rtol=0, atol=atol)


def test_scores_cover_the_stream_and_nothing_else(name: str, method: str) -> None:
    family = tiny_models()[name][0]
    attribution = in_batch(name, method)
    stream = attribution.streams[attribution.main]
    assert attribution.main == family.stream
    assert attribution.method == method
    if is_text(name):
        assert attribution.scores.shape == (2, 7)
        assert (attribution.scores[1, 5:] == 0).all()
        assert stream.grid is None
    else:
        config = model_of(name).config
        side = config.image_size // config.patch_size
        assert stream.grid == (side, side)
        assert attribution.scores.shape == (2, side * side)
    if "nonnegative" in wf.methods()[method].promises:
        assert (attribution.scores >= 0).all()
