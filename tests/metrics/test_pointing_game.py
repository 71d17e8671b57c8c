"""The pointing game by hand and against a slow search."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import whyformer as wf
from tests.metrics.making import image, text
from whyformer.errors import InputError, OptionError

GAME = wf.metrics()["pointing_game"]


def test_tokens_by_hand() -> None:
    attribution = text([[1.0, 3.0, 2.0], [5.0, 3.0, 2.0], [1.0, 1.0, 0.0]])
    regions = torch.tensor([[0, 1, 0], [0, 1, 1], [1, 0, 0]]).bool()
    score = GAME(attribution, regions=regions)
    assert score.values.tolist() == [1, 0, 1]  # of two equal ones the first
    assert score.mean == pytest.approx(2 / 3)


def test_tokens_that_are_kept_are_not_pointed_at() -> None:
    attribution, regions = text([[9.0, 3.0, 2.0]]), torch.tensor([[False, True, False]])
    assert GAME(attribution, regions=regions).mean == 0
    keep = torch.tensor([[True, False, False]])
    assert GAME(attribution, regions=regions, keep=keep).mean == 1


def test_pixels_by_hand() -> None:
    """The map's corner is its highest; the object is 3 pixels to the right and 4 below."""
    attribution = image([[[1.0, 0.0], [0.0, 0.0]]])
    regions = torch.zeros(1, 8, 8).bool()
    regions[0, 4, 3] = True
    assert GAME(attribution, regions=regions, tolerance=5).mean == 1
    assert GAME(attribution, regions=regions, tolerance=4).mean == 0
    assert "within 4 pixels" in GAME(attribution, regions=regions, tolerance=4).convention


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 999), tolerance=st.integers(0, 6))
def test_against_a_slow_search(seed: int, tolerance: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn(2, 3, 2, generator=generator).double()
    regions = torch.rand(2, 12, 8, generator=generator) < 0.03
    raised = F.interpolate(maps.unsqueeze(1), size=(12, 8), mode="bilinear").squeeze(1)
    found = GAME(image(maps), regions=regions, tolerance=tolerance).values.tolist()
    for i in range(2):
        y, x = max(
            ((r, c) for r in range(12) for c in range(8)), key=lambda p, i=i: float(raised[i][p])
        )
        near = [
            bool(regions[i, r, c])
            for r in range(12)
            for c in range(8)
            if (r - y) ** 2 + (c - x) ** 2 <= tolerance**2
        ]
        assert found[i] == any(near)


def test_a_sample_without_an_object_does_not_count() -> None:
    regions = torch.tensor([[True, False], [False, False]])
    score = GAME(text([[2.0, 1.0], [2.0, 1.0]]), regions=regions)
    assert score.values.tolist() == [1, 0]
    assert score.mean == 1


def test_perfect_beats_random_beats_adversarial() -> None:
    generator = torch.Generator().manual_seed(0)
    regions = torch.rand(100, 20, generator=generator) < 0.4
    perfect, random, adversarial = (
        GAME(text(scores), regions=regions).mean
        for scores in (
            regions.double(),
            torch.rand(100, 20, generator=generator).double(),
            -regions.double(),
        )
    )
    assert (perfect, adversarial) == (1, 0)
    assert 0.2 < random < 0.6


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"regions are \(1, 3\)"):
        GAME(text([[1.0]]), regions=torch.ones(1, 3).bool())
    with pytest.raises(OptionError, match="tolerance=-1"):
        GAME(text([[1.0]]), regions=torch.ones(1, 1).bool(), tolerance=-1)
