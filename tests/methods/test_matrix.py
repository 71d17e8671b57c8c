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
TOLERANCE = 1e-5  # of the largest score
QUICK = {"steps": 3, "samples": 2}  # for methods that repeat a pass: as often as they must

pytestmark = [
    pytest.mark.parametrize("method", wf.methods()),
    pytest.mark.parametrize("name", tiny_models()),
]


@cache
def model_of(name: str, dtype: torch.dtype = torch.float32, attention: str | None = None) -> Any:
    builder = tiny_models()[name][1]
    changes = {} if attention is None else {"attn_implementation": attention}
    return builder(**changes).to(dtype)


def explain(method: str, model: nn.Module, inputs: dict[str, Tensor]) -> wf.Attribution:
    known = wf.methods()[method].options
    options = {name: value for name, value in QUICK.items() if name in known}
    return wf.explain(inputs, model, method=method, target=1, **options)


@cache
def in_batch(name: str, method: str) -> wf.Attribution:
    """The batch that everything else is held against: float32, padded right, fused if it can."""
    model = model_of(name)
    return explain(method, model, tiny_inputs(model, LENGTHS))


def assert_same(actual: Tensor, expected: Tensor) -> None:
    assert actual.shape == expected.shape
    assert actual.isfinite().all()
    largest = expected.abs().max()
    assert largest > 0, "an explanation of nothing but zeros would equal any other"
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE * largest.item())


def is_text(name: str) -> bool:
    return tiny_models()[name][0].stream == "text"


def test_batch_equals_singles(name: str, method: str) -> None:
    together = in_batch(name, method)
    inputs = tiny_inputs(model_of(name), LENGTHS)
    for i, length in enumerate(LENGTHS):
        row = slice(0, length) if is_text(name) else slice(None)
        one = {
            key: value[i : i + 1] if key == "pixel_values" else value[i : i + 1, row]
            for key, value in inputs.items()
        }
        alone = explain(method, model_of(name), one)
        assert_same(together[i].scores, alone.scores)
        torch.testing.assert_close(together[i].output, alone.output, rtol=1e-4, atol=1e-5)
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
            assert_same(padded.scores[i, real[i]], together.scores[i, :length])


def test_eager_equals_fused(name: str, method: str) -> None:
    eager = model_of(name, attention="eager")
    assert_same(
        explain(method, eager, tiny_inputs(eager, LENGTHS)).scores, in_batch(name, method).scores
    )
    assert eager.config._attn_implementation == "eager"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"])
def test_other_precisions_run(name: str, method: str, dtype: torch.dtype) -> None:
    """bfloat16 has eight bits of mantissa: that it runs, finitely and in shape, is the claim."""
    model = model_of(name, dtype)
    attribution = explain(method, model, tiny_inputs(model, LENGTHS))
    expected = in_batch(name, method)
    if dtype == torch.float64:
        # What float32 rounds away stays small: the same map, not just any.
        scale = expected.scores.abs().max().item()
        torch.testing.assert_close(
            attribution.scores.float(), expected.scores, rtol=0, atol=1e-3 * scale
        )
    assert attribution.scores.shape == expected.scores.shape
    assert attribution.scores.isfinite().all()
    assert attribution.output.isfinite().all()


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
