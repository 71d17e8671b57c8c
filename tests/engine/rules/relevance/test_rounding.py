"""The estimate of how much rounding changes relevance."""

from __future__ import annotations

import pytest
import torch

from whyformer.engine.rules.relevance.rounding import RoundingError

EPS = torch.finfo(torch.float32).eps


def test_nothing_noted_is_no_error() -> None:
    assert RoundingError(3).worst.tolist() == [0, 0, 0]


def test_the_condition_of_the_entry_with_the_largest_error_decides_for_each_sample() -> None:
    error = RoundingError(2)
    whole = torch.tensor([[1.0, 2.0], [1.0, 1e-3]])
    error.note(torch.ones(2, 2), whole, torch.tensor([[2.0, 2.0], [1.0, 1.0]]))
    assert error.worst.tolist() == pytest.approx([2 * EPS, 1000 * EPS])
    error.note(torch.ones(2, 2), torch.ones(2, 2), torch.full((2, 2), 5.0))
    assert error.worst.tolist() == pytest.approx([5 * EPS, 1000 * EPS])


def test_a_cancelling_sum_without_relevance_and_a_sum_of_zero_change_nothing() -> None:
    error = RoundingError(1)
    relevance = torch.tensor([[1.0, 0.0, 1.0]])
    error.note(relevance, torch.tensor([[1.0, 1e-6, 0.0]]), torch.ones(1, 3))
    assert error.worst.tolist() == pytest.approx([EPS])


def test_samples_are_told_apart_in_the_layouts_of_models() -> None:
    whole = torch.tensor([1.0, 1.0, 0.1, 0.1])
    joint = RoundingError(2)  # samples and heads in one axis
    joint.note(torch.ones(4, 3), whole[:, None].expand(4, 3), torch.ones(4, 3))
    assert joint.worst.tolist() == pytest.approx([EPS, 10 * EPS])
    tokens_first = RoundingError(2)
    whole = torch.tensor([1.0, 0.1])[None, :, None].expand(3, 2, 4)
    tokens_first.note(torch.ones(3, 2, 4), whole, torch.ones(3, 2, 4), batch_first=False)
    assert tokens_first.worst.tolist() == pytest.approx([EPS, 10 * EPS])
    mixed = RoundingError(2)  # three rows of two samples: the largest counts for both
    mixed.note(torch.ones(3), torch.tensor([1.0, 1.0, 0.1]), torch.ones(3))
    assert mixed.worst.tolist() == pytest.approx([10 * EPS, 10 * EPS])
