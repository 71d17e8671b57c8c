"""Agreement by hand and against scipy."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

import whyformer as wf
from tests.metrics.making import attribution_of, stream_of, text
from whyformer.errors import InputError
from whyformer.metrics import ranks

AGREEMENT = wf.metrics()["agreement"]
BOTH = {"spearman": spearmanr, "kendall": kendalltau}


def test_by_hand() -> None:
    """Ranks 0 1 2 3 and 1 0 2 3: rho = 1 - 6 * 2 / (4 * 15); five pairs alike, one not."""
    one, other = text([[1.0, 2.0, 3.0, 4.0]]), text([[2.0, 1.0, 3.0, 4.0]])
    assert AGREEMENT(one, other=other).mean == pytest.approx(1 - 12 / 60)
    assert AGREEMENT(one, other=other, rank="kendall").mean == pytest.approx((5 - 1) / 6)


values = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=30)


@given(pairs=values)
@pytest.mark.parametrize("rank", BOTH)
def test_against_scipy_with_ties(rank: str, pairs: list[tuple[int, int]]) -> None:
    left, right = ([float(p[i]) for p in pairs] for i in (0, 1))
    assume(len(set(left)) > 1 and len(set(right)) > 1)
    found = AGREEMENT(text([left]), other=text([right]), rank=rank).mean
    assert found == pytest.approx(BOTH[rank](left, right).statistic, abs=1e-12)


def test_kendall_in_parts_is_kendall(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(2, 3, 50, generator=generator).double()
    whole = AGREEMENT(text(left), other=text(right), rank="kendall").values
    monkeypatch.setattr(ranks, "AT_ONCE", 1000)
    torch.testing.assert_close(
        AGREEMENT(text(left), other=text(right), rank="kendall").values, whole
    )


@pytest.mark.parametrize("rank", BOTH)
def test_ends_of_the_range(rank: str) -> None:
    scores = torch.randn(5, 9, generator=torch.Generator().manual_seed(0)).double()
    one = text(scores)
    assert AGREEMENT(one, other=text(scores * 3 + 1), rank=rank).mean == pytest.approx(1)
    assert AGREEMENT(one, other=text(-scores), rank=rank).mean == pytest.approx(-1)
    assert AGREEMENT(one, other=text(-scores), rank=rank, absolute=True).mean == pytest.approx(1)
    assert AGREEMENT(one, other=text(torch.zeros(5, 9)), rank=rank).mean == pytest.approx(
        0, abs=1e-12
    )
    flat = AGREEMENT(text(torch.ones(5, 9)), other=text(torch.zeros(5, 9)), rank=rank)
    assert flat.mean == pytest.approx(1)


def test_every_common_stream_is_compared() -> None:
    one = attribution_of(stream_of([[1.0, 2.0]]), stream_of([[1.0, 2.0]], name="image"))
    other = attribution_of(
        stream_of([[1.0, 2.0]]), stream_of([[2.0, 1.0]], name="image"), stream_of([[1.0]], name="x")
    )
    score = AGREEMENT(one, other=other)
    parts = {name: float(part) for name, part in score.parts.items()}
    assert parts == pytest.approx({"text": 1, "image": -1})
    assert score.mean == pytest.approx(1)
    assert AGREEMENT(one, other=other, stream="image").mean == pytest.approx(-1)


def test_other_inputs_are_refused() -> None:
    one = text([[1.0, 2.0]])
    with pytest.raises(InputError, match="not of the same inputs"):
        AGREEMENT(one, other=text([[1.0, 2.0, 3.0]]))
    with pytest.raises(InputError, match="or other padding"):
        AGREEMENT(one, other=text([[1.0, 2.0]], mask=torch.tensor([[True, False]])))
    with pytest.raises(InputError, match="there is no stream 'text'"):
        AGREEMENT(one, other=attribution_of(stream_of([[1.0, 2.0]], name="image")))
