"""The figures of benchmarks/segmentation.py, on examples small enough to do by hand."""

from __future__ import annotations

import pytest
import torch

from benchmarks.segmentation import Tally, average_precision, centre, minmax


def test_average_precision() -> None:
    """Hits at ranks 1 and 3 of three: (1/1 + 2/3) / 2."""
    scores, truth = torch.tensor([0.7, 0.9, 0.8]), torch.tensor([True, True, False])
    assert average_precision(scores, truth) == pytest.approx((1 + 2 / 3) / 2)


def test_equal_scores_are_one_step() -> None:
    scores, truth = torch.full((4,), 0.5), torch.tensor([True, False, False, True])
    assert average_precision(scores, truth) == pytest.approx(0.5)


def test_a_tally_by_hand() -> None:
    """Three of four labelled pixels right; the boundary pixel would have been wrong."""
    score_map = torch.tensor([[1.0, 0.8], [0.6, 0.0], [0.0, 0.0]])  # mean 0.4
    animal = torch.tensor([[True, True], [False, False], [True, False]])
    counted = torch.tensor([[True, True], [True, True], [False, False]])
    tally = Tally()
    tally.add(score_map, animal, counted)
    found = tally.figures()
    assert found["pixel_accuracy"] == pytest.approx(75)
    assert found["miou"] == pytest.approx(100 * (1 / 2 + 2 / 3) / 2)
    assert found["map_foreground"] == found["map_class_mean"] == pytest.approx(100)
    # One ranking: 1.0 fg, 1.0 bg, 0.8 fg, 0.6 no, 0.4 bg, then 0.2 no and twice 0.0 no.
    assert found["map"] == pytest.approx(100 * (2 / 2 / 4 * 2 + 3 / 3 / 4 + 4 / 5 / 4))


def test_figures_are_of_all_pixels_not_means_of_images() -> None:
    """One labelled pixel that is wrong weighs one pixel, however small its image."""
    tally, everywhere = Tally(), torch.ones(1, 4, dtype=torch.bool)
    score_map = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    tally.add(score_map, score_map > 0, everywhere)
    tally.add(score_map, score_map == 0, torch.tensor([[True, False, False, False]]))
    assert tally.figures()["pixel_accuracy"] == pytest.approx(100 * 4 / 5)


def test_a_class_that_is_not_there_is_left_out() -> None:
    tally = Tally()
    score_map = torch.tensor([[1.0, 0.0]])
    tally.add(score_map, torch.tensor([[False, False]]), torch.ones(1, 2, dtype=torch.bool))
    tally.add(score_map, torch.tensor([[True, False]]), torch.ones(1, 2, dtype=torch.bool))
    found = tally.figures()
    assert found["map_foreground"] == found["map_class_mean"] == pytest.approx(100)


def test_a_flat_map_is_all_background() -> None:
    assert (minmax(torch.full((2, 2), 3.0)) == 0).all()


def test_the_centre_is_the_middle() -> None:
    rows = torch.arange(256.0).reshape(1, 256, 1).expand(3, 256, 256)
    assert centre(rows).shape == (3, 224, 224)
    assert (centre(rows)[0, 0, 0], centre(rows)[0, -1, 0]) == (16, 239)
