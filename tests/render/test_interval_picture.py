"""Dots with intervals as a picture, and scales with and without 0."""

from __future__ import annotations

import math
from io import BytesIO

import pytest
from PIL import Image

from whyformer.render.charts.interval_chart import IntervalChart, IntervalPoint, draw_intervals
from whyformer.render.charts.interval_picture import draw_interval_picture

POINTS = (
    IntervalPoint("first $x_1$", "0.90 [0.88, 0.92]", 0.90, 0.88, 0.92, clear=True),
    IntervalPoint("second", "0.80", 0.80, math.nan, math.nan),
    IntervalPoint("gone", "0.70 [0.60, 0.80]", 0.70, 0.60, 0.80, muted=True),
)


def test_a_picture_of_several_panels_is_the_same_every_time() -> None:
    charts = [IntervalChart(title, POINTS, zero=False) for title in ("one", "two")]
    png = draw_interval_picture(charts, title="$ not maths")
    assert png == draw_interval_picture(charts, title="$ not maths")
    with Image.open(BytesIO(png)) as image:
        wide = image.width
    with Image.open(BytesIO(draw_interval_picture(charts[:1]))) as image:
        assert image.width < wide
    assert b"<svg" in draw_interval_picture(charts, "svg")


def test_the_scale_includes_zero_only_if_asked() -> None:
    low, high = IntervalChart("x", POINTS, zero=False).ends
    assert 0.5 < low < 0.60
    assert 0.92 < high < 1.0
    assert IntervalChart("x", POINTS).ends == pytest.approx((0.0, 0.92 * 1.04))
    assert IntervalChart("x", ()).ends == (0.0, 1.0)


def test_muted_points_are_marked_in_the_page_and_a_far_zero_is_not_drawn() -> None:
    near = str(draw_intervals(IntervalChart("x", POINTS, zero=False)))
    assert '<g class="muted">' in near
    assert '<g class="clear">' in near
    assert 'class="zero"' not in near
    assert 'class="zero"' in str(draw_intervals(IntervalChart("x", POINTS)))
