"""Every share of relevance against its equation, written out contribution by contribution."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from whyformer.engine.rules.relevance import shares

Random = Callable[..., Tensor]


# -- the slow twins ------------------------------------------------------------------------------


def over(numerator: float, denominator: float) -> float:
    """numerator / denominator with the signed stabiliser; 0 / 0 is 0."""
    if denominator == 0:
        return 0.0
    return numerator / (denominator + (1e-9 if denominator > 0 else -1e-9))


def spread_out(contributions: list[list[float]], relevance: list[float]) -> list[float]:
    """R_i = sum over outputs j of contribution_ji / (sum over i of contribution_ji) * R_j."""
    received = [0.0] * len(contributions[0])
    for from_each, arriving in zip(contributions, relevance, strict=True):
        total = sum(from_each)
        for i, contribution in enumerate(from_each):
            received[i] += contribution * over(arriving, total)
    return received


def slow_positive_linear(relevance: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """Equation 5: only pairs whose contribution is positive count."""
    rows = []
    for r, inputs in zip(relevance.tolist(), x.tolist(), strict=True):
        kept = [[max(a * b, 0.0) for a, b in zip(inputs, v, strict=True)] for v in w.tolist()]
        rows.append(spread_out(kept, r))
    return torch.tensor(rows, dtype=x.dtype)


def slow_separate_linear(relevance: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """Positive inputs with positive weights, negative with negative, each over their own sum."""
    rows = []
    for r, inputs in zip(relevance.tolist(), x.tolist(), strict=True):
        received = [0.0] * len(inputs)
        for half in (lambda v: max(v, 0.0), lambda v: min(v, 0.0)):
            kept = [[half(a) * half(b) for a, b in zip(inputs, v, strict=True)] for v in w.tolist()]
            received = [a + b for a, b in zip(received, spread_out(kept, r), strict=True)]
        rows.append(received)
    return torch.tensor(rows, dtype=x.dtype)


def slow_matmul(relevance: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Each product left_ik * right_kj takes its part of R_ij, half for either factor."""
    to_left, to_right = torch.zeros_like(left), torch.zeros_like(right)
    rows, inner, columns = left.shape[0], left.shape[1], right.shape[1]
    for i, j in product(range(rows), range(columns)):
        total = sum(float(left[i, k] * right[k, j]) for k in range(inner))
        for k in range(inner):
            part = float(left[i, k] * right[k, j]) * over(float(relevance[i, j]), total)
            to_left[i, k] += part / 2
            to_right[k, j] += part / 2
    return to_left, to_right


def slow_addends(relevance: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Equations 8-10, one sample after the other."""
    results: tuple[list, list] = ([], [])
    for r, u, v in zip(relevance.flatten(1), left.flatten(1), right.flatten(1), strict=True):
        pairs = list(zip(r.tolist(), u.tolist(), v.tolist(), strict=True))
        parts = (
            [a * over(s, a + b) for s, a, b in pairs],
            [b * over(s, a + b) for s, a, b in pairs],
        )
        whole = sum(r.tolist())
        size = sum(abs(sum(part)) for part in parts)
        for result, part in zip(results, parts, strict=True):
            factor = over(over(abs(sum(part)), size) * whole, sum(part))
            result.append([p * factor for p in part])
    return tuple(torch.tensor(x, dtype=left.dtype).reshape(left.shape) for x in results)  # type: ignore[return-value]


def slow_pixels(relevance: Tensor, x: Tensor, w: Tensor, stride: int) -> Tensor:
    """z^B: x_i w_ij - low w_ij+ - high w_ij-, low and high those of the image."""
    received = torch.zeros_like(x)
    size = w.shape[-1]
    for image, (kernel, row, column) in product(
        range(len(x)), product(*map(range, relevance.shape[1:]))
    ):
        low, high = float(x[image].min()), float(x[image].max())
        window = (
            image,
            slice(None),
            *(slice(p * stride, p * stride + size) for p in (row, column)),
        )
        flat, weights = x[window].flatten().tolist(), w[kernel].flatten().tolist()
        from_each = [
            a * b - low * max(b, 0.0) - high * min(b, 0.0)
            for a, b in zip(flat, weights, strict=True)
        ]
        shared = spread_out([from_each], [float(relevance[image, kernel, row, column])])
        received[window] += torch.tensor(shared, dtype=x.dtype).reshape(x[window].shape)
    return received


# -- equality ------------------------------------------------------------------------------------


def per_sample(tensor: Tensor) -> Tensor:
    return tensor.flatten(1).sum(1).reshape(-1, *[1] * (tensor.dim() - 1))


def with_zeros(tensor: Tensor) -> Tensor:
    """A third of the entries exactly 0, among them the whole last row."""
    tensor = tensor.clone()
    tensor.view(-1)[::3] = 0
    tensor[-1] = 0
    return tensor


SPARSE = pytest.mark.parametrize("zeros", [False, True], ids=["dense", "zeros"])


@SPARSE
def test_positive_linear(random: Random, zeros: bool) -> None:
    relevance, x, w = random(3, 5), random(3, 4), random(5, 4)
    x, w = (with_zeros(x), with_zeros(w)) if zeros else (x, w)
    found = shares.positive_linear(relevance, x, w, x @ w.t())
    torch.testing.assert_close(found, slow_positive_linear(relevance, x, w))


@SPARSE
def test_separate_linear(random: Random, zeros: bool) -> None:
    relevance, x, w = random(3, 5), random(3, 4), random(5, 4)
    x, w = (with_zeros(x), with_zeros(w)) if zeros else (x, w)
    found = shares.separate_linear(relevance, x, w)
    torch.testing.assert_close(found, slow_separate_linear(relevance, x, w))


def test_positive_and_separate_linear_differ_by_what_the_paper_says(random: Random) -> None:
    """Jointly normalised relevance is conserved; separately, it doubles."""
    relevance, x, w = random(2, 6), random(2, 64), random(6, 64)
    joint = shares.positive_linear(relevance, x, w, x @ w.t())
    apart = shares.separate_linear(relevance, x, w)
    torch.testing.assert_close(joint.sum(1), relevance.sum(1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(apart.sum(1), 2 * relevance.sum(1), rtol=1e-6, atol=1e-6)


@SPARSE
def test_matmul(random: Random, zeros: bool) -> None:
    relevance, left, right = random(2, 3, 3, 5), random(2, 3, 3, 4), random(2, 3, 4, 5)
    left, right = (with_zeros(left), with_zeros(right)) if zeros else (left, right)
    found = shares.matmul(relevance, left, right, left @ right)
    for sample, head in product(range(2), range(3)):
        slow = slow_matmul(relevance[sample, head], left[sample, head], right[sample, head])
        for ours, expected in zip(found, slow, strict=True):
            torch.testing.assert_close(ours[sample, head], expected)


@SPARSE
def test_addends(random: Random, zeros: bool) -> None:
    relevance, left, right = random(3, 2, 4), random(3, 2, 4), random(3, 2, 4)
    left, right = (with_zeros(left), with_zeros(right)) if zeros else (left, right)
    found = shares.addends(relevance, left, right, left + right, per_sample)
    for ours, expected in zip(found, slow_addends(relevance, left, right), strict=True):
        torch.testing.assert_close(ours, expected)


def test_addends_of_one_sample_do_not_know_the_others(random: Random) -> None:
    relevance, left, right = random(3, 2, 4), random(3, 2, 4), random(3, 2, 4)
    together = shares.addends(relevance, left, right, left + right, per_sample)
    for i in range(3):
        one = slice(i, i + 1)
        alone = shares.addends(
            relevance[one], left[one], right[one], left[one] + right[one], per_sample
        )
        for whole, part in zip(together, alone, strict=True):
            torch.testing.assert_close(whole[one], part, rtol=1e-12, atol=1e-12)


def test_plain_addends(random: Random) -> None:
    relevance, left, right = random(2, 5), random(2, 5), random(2, 5)
    found = shares.plain_addends(relevance, left, right, left + right)
    for index in product(range(2), range(5)):
        total = float(left[index] + right[index])
        for ours, side in zip(found, (left, right), strict=True):
            expected = float(side[index]) * over(float(relevance[index]), total)
            assert ours[index].item() == pytest.approx(expected)


def mean_shares(relevance: Tensor, x: Tensor, dim: int = 1) -> Tensor:
    """The shares of what is averaged over an axis, whose own backward spreads evenly."""

    def back(share: Tensor) -> list[Tensor]:
        return [share.expand_as(x) / x.shape[dim]]

    return shares.contributions(relevance, [x], x.mean(dim, keepdim=True), back)[0]


def test_mean(random: Random) -> None:
    relevance, x = random(2, 1, 4), random(2, 3, 4)
    found = mean_shares(relevance, x)
    for sample, hidden in product(range(2), range(4)):
        entries = (x[sample, :, hidden] / 3).tolist()
        expected = spread_out([entries], [float(relevance[sample, 0, hidden])])
        assert found[sample, :, hidden].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("stride", [2, 1], ids=["patches", "overlapping"])
def test_pixels(random: Random, stride: int) -> None:
    x, w = random(2, 3, 4, 4), random(5, 3, 2, 2)

    def apply(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w, stride=stride)

    def back(share: Tensor, w: Tensor) -> Tensor:
        return torch.nn.grad.conv2d_input(x.shape, w, share, stride=stride)

    relevance = random(*apply(x, w).shape)
    found = shares.pixels(relevance, x, w, apply, back)
    torch.testing.assert_close(found, slow_pixels(relevance, x, w, stride))
    torch.testing.assert_close(found.sum((1, 2, 3)), relevance.sum((1, 2, 3)))


def test_an_image_of_one_colour_passes_nothing_on_and_no_nan() -> None:
    """Every pixel is at both ends of the box: no contribution, 0 / 0."""
    x, w = torch.full((1, 1, 4, 4), 0.25).double(), torch.ones(2, 1, 2, 2).double()
    found = shares.pixels(
        torch.ones(1, 2, 2, 2).double(),
        x,
        w,
        lambda x, w: F.conv2d(x, w, stride=2),
        lambda share, w: torch.nn.grad.conv2d_input(x.shape, w, share, stride=2),
    )
    assert (found == 0).all()


# -- whatever the numbers ------------------------------------------------------------------------

# Zeros, numbers around the stabiliser, ordinary ones, large ones; both signs.
NUMBERS = st.sampled_from(
    [0.0, 1e-30, 1e-12, 1e-9, 3e-9, 1e-4, 0.5, 1.0, 1.5, 2.0, 7.0, 1e3]
).flatmap(lambda size: st.sampled_from([size, -size]))


@st.composite
def tensors(draw: Any, *shapes: str) -> list[Tensor]:
    """Tensors whose axes are letters, each letter of one random size from 1 to 3."""
    sizes = {letter: draw(st.integers(1, 3)) for letter in sorted(set("".join(shapes)))}
    found = []
    for shape in shapes:
        lengths = [sizes[letter] for letter in shape]
        count = int(torch.tensor(lengths).prod())
        entries = draw(st.lists(NUMBERS, min_size=count, max_size=count))
        found.append(torch.tensor(entries, dtype=torch.float64).reshape(lengths))
    return found


def conserved(relevance: Tensor, total: Tensor) -> Tensor:
    """What of the relevance the stabiliser lets through: all but near a denominator of 0."""
    return relevance * total.abs() / (total.abs() + shares.EPSILON)


@settings(deadline=None)
@given(tensors("no", "ni", "oi"))
def test_positive_linear_conserves_where_anything_contributes(drawn: list[Tensor]) -> None:
    relevance, x, w = drawn
    found = shares.positive_linear(relevance, x, w, x @ w.t())
    assert found.isfinite().all()
    total = (x.unsqueeze(1) * w).clamp(min=0).sum(-1)
    # Positive contributions are what is left of x w when |x| |w| is added to it.
    rounding = 1e-14 * (x.abs() @ w.abs().t()) / (total + shares.EPSILON)
    slack = (relevance.abs() * (1e-12 + rounding)).sum(1)
    assert ((found.sum(1) - conserved(relevance, total).sum(1)).abs() <= slack).all()
    twin = slow_positive_linear(relevance, x, w)
    assert ((found - twin).abs() <= slack.unsqueeze(1)).all()


@settings(deadline=None)
@given(tensors("no", "ni", "oi"))
def test_separate_linear_passes_each_half_on(drawn: list[Tensor]) -> None:
    relevance, x, w = drawn
    found = shares.separate_linear(relevance, x, w)
    assert found.isfinite().all()
    halves = (x.clamp(min=0) @ w.clamp(min=0).t(), x.clamp(max=0) @ w.clamp(max=0).t())
    expected = sum(conserved(relevance, total).sum(1) for total in halves)
    assert ((found.sum(1) - expected).abs() <= 1e-6 * relevance.abs().sum(1)).all()


@settings(deadline=None)
@given(tensors("bij", "bik", "bkj"))
def test_matmul_conserves_where_the_product_is_not_zero(drawn: list[Tensor]) -> None:
    relevance, left, right = drawn
    output = left @ right
    found = shares.matmul(relevance, left, right, output)
    assert all(part.isfinite().all() for part in found)
    sums = [part.sum((1, 2)) for part in found]
    expected = conserved(relevance, output).sum((1, 2)) / 2
    # Contributions that cancel are larger than their sum: rounding is relative to them.
    share = shares.ratio(relevance, output, shares.EPSILON).abs()
    mass = (left.abs() @ right.abs() * share).sum((1, 2))
    for total in sums:
        assert ((total - expected).abs() <= 1e-9 * (mass + relevance.abs().sum((1, 2)))).all()


@settings(deadline=None)
@given(tensors("btd", "btd", "btd"))
def test_addends_conserve_per_sample(drawn: list[Tensor]) -> None:
    relevance, left, right = drawn
    found = shares.addends(relevance, left, right, left + right, per_sample)
    assert all(part.isfinite().all() for part in found)
    first, second = shares.plain_addends(relevance, left, right, left + right)
    sums = [part.sum((1, 2)) for part in (first, second)]
    size = sums[0].abs() + sums[1].abs()
    whole = relevance.sum((1, 2))
    # Rounding of what cancels within a side, which the factor then carries along.
    mass = (first.abs() + second.abs()).sum((1, 2)) + relevance.abs().sum((1, 2))
    kept = sum(part.sum((1, 2)) for part in found)
    slack = 2e-6 * whole.abs() + 1e-12 * mass
    clear = size > 1e-3  # of the stabiliser
    assert ((kept - whole).abs()[clear] <= slack[clear]).all()
    nothing = (left == 0) & (right == 0)
    assert all((part[nothing] == 0).all() for part in found)


@settings(deadline=None)
@given(tensors("btd", "btd"))
def test_nothing_to_add_takes_nothing(drawn: list[Tensor]) -> None:
    """A mask or a branch of zeros: the other side keeps all, up to the stabiliser."""
    relevance, left = drawn
    kept, none = shares.addends(relevance, left, torch.zeros_like(left), left, per_sample)
    assert (none == 0).all()
    assert kept.isfinite().all()


@settings(deadline=None)
@given(tensors("b1d", "btd"))
def test_mean_conserves_where_the_average_is_not_zero(drawn: list[Tensor]) -> None:
    relevance, x = drawn
    relevance = relevance[:, :1]
    average = x.mean(1, keepdim=True)
    found = mean_shares(relevance, x)
    assert found.isfinite().all()
    share = shares.ratio(relevance, average, shares.EPSILON).abs()
    slack = 1e-12 * (x.abs().sum(1, keepdim=True) * share + relevance.abs())
    expected = conserved(relevance, average)
    assert ((found.sum(1, keepdim=True) - expected).abs() <= slack).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_nothing_in_gives_nothing_out(dtype: torch.dtype) -> None:
    """All-zero inputs, one row or many: no relevance, no NaN, in every precision."""
    for rows in (1, 4):
        relevance, x, w = torch.ones(rows, 3), torch.zeros(rows, 5), torch.ones(3, 5)
        relevance, x, w = relevance.to(dtype), x.to(dtype), w.to(dtype)
        found = [
            shares.positive_linear(relevance, x, w, x @ w.t()),
            shares.separate_linear(relevance, x, w),
            *shares.matmul(relevance, x, w.t(), x @ w.t()),
            *shares.addends(relevance, *[0 * relevance] * 3, per_sample),
            mean_shares(relevance[:1], 0 * relevance, dim=0),
        ]
        assert all((part == 0).all() for part in found)
