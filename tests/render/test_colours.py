"""Colours: signed, legible at every step, and apart for every kind of eye."""

from __future__ import annotations

import math

import pytest
import torch

from whyformer.render.colours import (
    BLACK,
    BROKEN,
    DARK,
    EITHER,
    LIGHT,
    STEPS,
    WHITE,
    Theme,
    contrast,
    css,
    ink,
    luminance,
    step,
)

ALL_STEPS = range(-STEPS, STEPS + 1)
themes = pytest.mark.parametrize("theme", [LIGHT, DARK, EITHER], ids=lambda t: t.name)


@themes
@pytest.mark.parametrize("whole", ALL_STEPS)
def test_text_is_legible_on_every_step(theme: Theme, whole: int) -> None:
    ground = theme.colour(whole / STEPS)
    assert contrast(ink(ground), ground) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda t: t.name)
def test_text_of_the_page_is_legible(theme: Theme) -> None:
    assert contrast(theme.text, theme.page) >= 7
    assert contrast(theme.quiet, theme.page) >= 4.5
    # Bars carry meaning without text: 3 is what WCAG asks of graphics.
    assert contrast(theme.warm, theme.page) >= 3
    assert contrast(theme.cool, theme.page) >= 3


def test_contrast_is_that_of_wcag() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(WHITE, BLACK) == pytest.approx(21)
    assert contrast((118, 118, 118), WHITE) == pytest.approx(4.54, abs=0.01)
    assert luminance((255, 0, 0)) == pytest.approx(0.2126)


@themes
def test_the_ends_are_what_the_theme_says(theme: Theme) -> None:
    assert theme.colour(1.0) == theme.warm
    assert theme.colour(-1.0) == theme.cool
    assert theme.colour(0.0) == theme.neutral
    assert theme.colour(7.0) == theme.warm
    assert theme.colour(math.nan) == BROKEN


@themes
def test_for_is_warm_and_against_is_cool(theme: Theme) -> None:
    for whole in range(STEPS // 2, STEPS + 1):
        red, _, blue = theme.colour(whole / STEPS)
        assert red > blue
        red, _, blue = theme.colour(-whole / STEPS)
        assert red < blue


@themes
@pytest.mark.parametrize("sign", [1, -1])
def test_strength_grows_away_from_neutral(theme: Theme, sign: int) -> None:
    away = [math.dist(theme.colour(sign * s / STEPS), theme.neutral) for s in range(STEPS + 1)]
    assert away == sorted(away)
    assert len(set(away)) == len(away)


@pytest.mark.parametrize("blind", ["protan", "deutan", "tritan"])
@themes
def test_the_ends_stay_apart_for_colour_blind_eyes(theme: Theme, blind: str) -> None:
    # Machado et al. 2009, full severity, in linear light.
    matrix = {
        "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
        "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
    }[blind]

    def seen(colour: tuple[int, int, int]) -> torch.Tensor:
        linear = torch.tensor([(c / 255) ** 2.2 for c in colour])
        return (torch.tensor(matrix) @ linear).clamp(0, 1) ** (1 / 2.2) * 255

    assert torch.dist(seen(theme.warm), seen(theme.cool)) > 80


@pytest.mark.parametrize(
    ("value", "whole"),
    [(0.0, 0), (1e-9, 1), (-1e-9, -1), (0.5, 10), (1.0, 20), (-3.0, -20), (math.nan, 0)],
)
def test_steps(value: float, whole: int) -> None:
    assert step(value) == whole


def test_painting_keeps_the_shape() -> None:
    painted = LIGHT.paint(torch.zeros(2, 3))
    assert painted.shape == (2, 3, 3)
    assert css(LIGHT.colour(0)) == "#f5f5f5"
