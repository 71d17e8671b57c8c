"""Grid pointing by hand: shares of the positive scores, patches at the edge by their area."""

from __future__ import annotations

import pytest
import torch

import whyformer as wf
from tests.metrics.making import image, text
from whyformer.errors import InputError

POINTING = wf.metrics()["grid_pointing"]


def test_a_grid_by_hand() -> None:
    """Four by four patches; the upper left cell has 1 + 2 of the positive 1 + 2 + 3 + 6."""
    scores = torch.zeros(1, 4, 4)
    scores[0, 0, 0], scores[0, 1, 1] = 1.0, 2.0
    scores[0, 0, 3], scores[0, 3, 0] = 3.0, 6.0
    scores[0, 0, 1], scores[0, 3, 3] = -50.0, -7.0
    regions = torch.zeros(1, 16, 16).bool()
    regions[0, :8, :8] = True
    assert POINTING(image(scores), regions=regions).values.tolist() == [pytest.approx(3 / 12)]
    assert POINTING(image(-scores), regions=regions).mean == pytest.approx(50 / 57)


def test_a_patch_at_the_edge_counts_by_its_share() -> None:
    """Two patches of 4 x 4 pixels; the region has the first and one column of the second."""
    regions = torch.zeros(1, 4, 8).bool()
    regions[0, :, :5] = True
    found = POINTING(image([[[1.0, 4.0]]]), regions=regions)
    assert found.mean == pytest.approx((1 + 4 / 4) / 5)


def test_tokens_and_chance() -> None:
    regions = torch.tensor([[True, False, False, False]])
    assert POINTING(text([[2.0, 2.0, 2.0, 2.0]]), regions=regions).mean == pytest.approx(0.25)
    assert POINTING(text([[1.0, -2.0, 3.0, 0.0]]), regions=regions).mean == pytest.approx(0.25)


def test_nothing_positive_is_no_hit_and_nothing_to_hit_does_not_count() -> None:
    regions = torch.tensor([[True, False], [False, False]])
    score = POINTING(text([[-1.0, -2.0], [1.0, 2.0]]), regions=regions)
    assert score.values.tolist() == [0, 0]
    assert score.counted.tolist() == [True, False]
    assert score.mean == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"regions are \(1, 3\)"):
        POINTING(text([[1.0]]), regions=torch.ones(1, 3).bool())
    with pytest.raises(InputError, match=r"regions are \(1, 2, 2\)"):
        POINTING(text([[1.0]]), regions=torch.ones(1, 2, 2).bool())
