"""Perturbation against examples done by hand and against the authors' loops, written out."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import whyformer as wf
from benchmarks.perturbation import FRACTIONS, kept
from tests.metrics.making import Linear, attribution_of, image, stream_of, text
from whyformer.errors import InputError
from whyformer.metrics.perturbation import IMAGE_STEPS, TOKEN_STEPS

POSITIVE = wf.metrics()["perturbation_positive"]
NEGATIVE = wf.metrics()["perturbation_negative"]
QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def four_tokens() -> Linear:
    """Class 0 adds 3, 1, -1, -1 for the tokens and wins where that is more than 1."""
    weights = torch.tensor([[[3.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]])
    return Linear(weights, torch.tensor([0.0, 1.0]))


def test_by_hand() -> None:
    """Sums left, most relevant first: 2, -1, -2, -1, 0; least relevant first: 2, 3, 4, 3, 0."""
    attribution = text([[4.0, 3.0, 2.0, 1.0]])
    score = POSITIVE(attribution, rerun=four_tokens(), steps=QUARTERS)
    assert score.curve is not None
    assert score.curve.tolist() == [[1, 0, 0, 0, 0]]
    assert score.values.tolist() == [pytest.approx(0.125)]
    score = NEGATIVE(attribution, rerun=four_tokens(), steps=QUARTERS)
    assert score.curve is not None
    assert score.curve.tolist() == [[1, 1, 1, 1, 0]]
    assert score.values.tolist() == [pytest.approx(0.875)]


def test_probabilities_by_hand() -> None:
    attribution = text([[4.0, 3.0, 2.0, 1.0]])
    score = POSITIVE(attribution, rerun=four_tokens(), steps=QUARTERS, measure="probability")
    sums = torch.tensor([2.0, -1.0, -2.0, -1.0, 0.0]).double()
    torch.testing.assert_close(score.curve, (sums - 1).sigmoid().unsqueeze(0))
    torch.testing.assert_close(score.parts["accuracy"], ((sums - 1) > 0).double().unsqueeze(0))


def test_the_area_is_the_mean_height_unless_asked_otherwise() -> None:
    attribution, steps = text([[4.0, 3.0, 2.0, 1.0]]), (0.25, 0.5)
    heights = NEGATIVE(attribution, rerun=four_tokens(), steps=steps)
    assert heights.values.tolist() == [pytest.approx(1.0)]
    assert "divided by its width" in heights.convention
    bare = NEGATIVE(attribution, rerun=four_tokens(), steps=steps, normalised=False)
    assert bare.values.tolist() == [pytest.approx(0.25)]
    assert "area, not divided by its width" in bare.convention
    one = NEGATIVE(attribution, rerun=four_tokens(), steps=(0.25,))
    assert one.values.tolist() == pytest.approx([1.0])


def test_the_authors_area_of_an_image() -> None:
    """Ten patches of one column, each worth 1 while 4 must stay: right up to 60 % removed.

    Heights at 0, 0.1, ..., 0.9 are 1, 1, 1, 1, 1, 1, 1, 0, 0, 0: six trapezoids of 0.1 and a half.
    """
    weights = torch.stack((torch.ones(1, 10), torch.zeros(1, 10)), 2)
    rerun = Linear(weights, torch.tensor([0.0, 3.5]))
    scores = [[[float(10 - i)] for i in range(10)]]
    score = POSITIVE(image(scores), rerun=rerun, normalised=False, percent=True)
    assert score.curve is not None
    assert score.curve.tolist() == [[1.0] * 7 + [0.0] * 3]
    assert score.values.tolist() == [pytest.approx(65.0)]
    assert "shares 0, 0.1, 0.2," in score.convention
    assert "area x 100, not divided by its width" in score.convention
    mean = POSITIVE(image(scores), rerun=rerun)
    assert mean.values.tolist() == [pytest.approx(0.65 / 0.9)]


def test_steps_are_the_papers_and_are_printed() -> None:
    assert IMAGE_STEPS == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    assert TOKEN_STEPS == FRACTIONS
    zeros = Linear(torch.zeros(1, 4, 2))
    alone = POSITIVE(image([[[1.0, 2.0], [3.0, 4.0]]]), rerun=zeros)
    assert alone.steps == IMAGE_STEPS
    assert "0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9" in alone.convention
    pair = attribution_of(
        stream_of([[1.0]]), stream_of([[1.0, 2.0, 3.0, 4.0]], name="image", grid=(2, 2))
    )
    assert POSITIVE(pair, rerun=zeros, stream="image").steps == TOKEN_STEPS
    assert POSITIVE(text([[1.0, 2.0, 3.0, 4.0]]), rerun=zeros).steps == TOKEN_STEPS


@given(tokens=st.integers(1, 40), seed=st.integers(0, 99))
def test_text_keeps_what_the_benchmark_of_lxmert_keeps(tokens: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, tokens, generator=generator).double()
    keep = torch.rand(2, tokens, generator=generator) < 0.3
    for way, metric in (("positive", POSITIVE), ("negative", NEGATIVE)):
        rerun = Linear(torch.zeros(2, tokens, 2))
        metric(text(scores), rerun=rerun, keep=keep)
        masks = [each["text"] for each in rerun.calls[1:]]  # the first is the whole input
        for found, fraction in zip(masks, FRACTIONS, strict=True):
            assert torch.equal(found, kept(scores, ~keep, fraction, way))


@pytest.mark.parametrize("sign", [1, -1])
def test_pixels_go_as_in_the_authors_script(sign: int) -> None:
    """Topk of the upsampled map, int(pixels * step) of them, set to nothing."""
    generator = torch.Generator().manual_seed(0)
    maps, size = torch.randn(3, 2, 3, generator=generator).double(), (8, 12)
    weights = torch.randn(3, 96, 5, generator=generator).double()
    attribution = image(maps, image=torch.zeros(3, 3, *size))
    metric = POSITIVE if sign > 0 else NEGATIVE
    labels = torch.tensor([0, 1, 2])
    score = metric(
        attribution, rerun=Linear(weights), level="pixel", labels=labels, against="label"
    )

    raised = F.interpolate(maps.unsqueeze(1), scale_factor=4, mode="bilinear")
    # Pixels in the corners are equal, and topk may choose any of them.
    nudge = torch.linspace(1e-9, 0, 96).double()
    flat = sign * raised.reshape(3, -1) + nudge
    hits: list[Tensor] = []
    for step in IMAGE_STEPS:
        left = torch.ones(3, 96).double()
        left.scatter_(1, flat.topk(int(96 * step), dim=-1).indices, 0)
        logits = (weights * left.unsqueeze(2)).sum(1)
        hits.append((logits.argmax(1) == labels).double())
    assert score.curve is not None
    assert torch.equal(score.curve, torch.stack(hits, 1))
    assert 0 < score.curve.mean() < 1
    assert "pixels" in score.convention


def test_kept_patches_keep_their_pixels() -> None:
    rerun = Linear(torch.zeros(1, 64, 2))
    attribution = image([[[4.0, 3.0], [2.0, 1.0]]], image=torch.zeros(1, 3, 8, 8))
    keep = torch.tensor([[True, False, False, False]])
    POSITIVE(attribution, rerun=rerun, keep=keep, level="pixel", steps=(0.0, 0.5, 1.0))
    last = rerun.calls[-1]["image"].reshape(8, 8)
    assert last[:4, :4].all()
    assert last.sum() == 16
    assert rerun.calls[-2]["image"].sum() == 16 + 24


def test_pixels_need_an_image_of_known_size() -> None:
    rerun = Linear(torch.zeros(1, 4, 2))
    with pytest.raises(InputError, match="size of its image"):
        POSITIVE(image([[[4.0, 3.0], [2.0, 1.0]]]), rerun=rerun, level="pixel")
    with pytest.raises(InputError, match="not an image"):
        POSITIVE(text([[4.0]], image=torch.zeros(1, 3, 8, 8)), rerun=rerun, level="pixel")


def test_keep_has_to_fit() -> None:
    with pytest.raises(InputError, match=r"keep is \(1, 3\); expected \(1, 4\)"):
        POSITIVE(text([[4.0, 3.0, 2.0, 1.0]]), rerun=four_tokens(), keep=torch.zeros(1, 3).bool())
