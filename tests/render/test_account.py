"""The account: lines that add up to what was explained, and a gauge that shows the share."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from whyformer.attribution import Attribution, views
from whyformer.render.html.account import FARTHEST, WIDE, account
from whyformer.render.html.page import build_fragment
from whyformer.render.view_model import read_samples

Make = Callable[..., Attribution]


def test_no_promise_has_no_account(sentence: Make) -> None:
    assert account(read_samples(sentence())[0]) is None
    page = views["html"].render(sentence())
    assert 'class="gauge"' not in page
    assert "not expected to sum" in page


def test_tokens_and_sinks_make_the_sum(question: Make) -> None:
    sinks = {"norm_bias": torch.tensor([0.25]), "odd": torch.tensor([-1.0])}
    made = question(conservation=torch.tensor([0.8]), sinks=sinks)
    found = account(read_samples(made)[0])
    assert found is not None
    assert [line.name for line in found.lines] == ["text", "image", "norm bias", "odd"]
    assert found.lines[2].meaning == "biases of norms"
    scores = sum(float(stream.scores.sum()) for stream in made.streams.values())
    assert found.total == pytest.approx(scores + 0.25 - 1.0, rel=1e-5)
    assert found.output == 2.5
    assert found.share == pytest.approx(0.8)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0, 1.3, 2.5, -0.7, 1e9, -1e9])
def test_the_gauge_is_in_proportion(sentence: Make, share: float) -> None:
    found = account(read_samples(sentence(conservation=torch.tensor([share])))[0])
    assert found is not None
    gauge = found.gauge
    assert gauge is not None
    shown = max(-FARTHEST, min(FARTHEST, share))
    assert 0 <= gauge.start <= gauge.start + gauge.length <= 100 + 1e-9
    whole = gauge.one - gauge.zero
    assert gauge.length == pytest.approx(abs(shown) * whole, abs=1e-4)
    assert whole * max(WIDE, shown) == pytest.approx(100 - gauge.zero)


def test_a_share_of_nothing_has_no_gauge(sentence: Make) -> None:
    page = views["html"].render(sentence(conservation=torch.tensor([float("inf")])))
    assert 'class="gauge"' not in page
    assert "sum / output" not in page
    assert "The output is 0" in page


def test_a_piece_of_a_page_is_brief(sentence: Make) -> None:
    made = sentence(conservation=torch.tensor([0.83]), sinks={"bias": torch.tensor([0.31])})
    piece = build_fragment(made).to_html()
    assert "<svg" not in piece
    assert '<dt>bias</dt><dd dir="auto">+0.310</dd>' in piece


def test_the_page_says_what_the_gauge_shows(sentence: Make) -> None:
    made = sentence(conservation=torch.tensor([0.83]), sinks={"bias": torch.tensor([0.31])})
    page = views["html"].render(made)
    assert 'aria-label="Scores and sinks sum to 83.0 % of the output"' in page
    table = page.split('<table class="sum">')[1].split("</table>")[0]
    rows = re.findall(r'<tr><th scope="row"[^>]*>([^<]+)</th><td class="number">([^<]+)<', table)
    assert rows == [
        ("text", "+4.49"),
        ("bias", "+0.310"),
        ("sum", "+4.80"),
        ("output", "+2.50"),
        ("sum / output", "83.0 %"),
    ]
