"""Sub-words: every token by itself, special ones still special, and the sum the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.text import Text

from whyformer.attribution import Attribution, views
from whyformer.render.subwords import as_subwords
from whyformer.render.view_model import read_samples

Make = Callable[..., Attribution]


def words(attribution: Attribution) -> list[tuple[str, float, bool]]:
    panel = read_samples(attribution)[0].panels[0]
    return [(word.text, round(word.score, 3), word.special) for word in panel.words]  # type: ignore[union-attr]


def test_tokens_stand_by_themselves(sentence: Make) -> None:
    assert words(as_subwords(sentence()))[:4] == [
        ("[CLS]", 0.1, True),
        ("grip", 0.5, False),
        ("·ping", 0.3, False),
        (",", 0.0, False),
    ]
    whole, apart = words(sentence()), words(as_subwords(sentence()))
    assert sum(score for _, score, _ in whole) == pytest.approx(sum(s for _, s, _ in apart))


def test_the_attribution_itself_is_left_alone(sentence: Make) -> None:
    made = sentence()
    as_subwords(made)
    assert made.words()[1][0] == "gripping"


def test_what_has_no_words_stays(image: Make, regions: Make) -> None:
    import torch

    for made in (image(torch.eye(2)), regions()):
        assert [p.rows for p in read_samples(as_subwords(made))[0].panels] == [
            p.rows for p in read_samples(made)[0].panels
        ]


def test_an_output_is_shown_token_by_token(translation: Make) -> None:
    (matrix, *_) = read_samples(as_subwords(translation()))[0].matrices
    assert [row.text for row in matrix.rows] == ["dieser", "Film", "ist", "groß", "artig", "</s>"]
    assert [column.text for column in matrix.columns][3:5] == ["mag", "·nificent"]


def test_views_show_them_on_request(sentence: Make) -> None:
    terminal = views["terminal"]
    shown = Text.from_ansi(terminal.render(sentence(), 80, subwords=True)).plain
    assert "grip ·ping" in shown
    assert "gripping" not in shown
    both = [sentence(), sentence(method="gae")]
    shown = Text.from_ansi(terminal.render_comparison(both, 80, subwords=True)).plain
    assert "·ping" in shown
    for view in (views["png"], views["svg"]):
        assert view.render(sentence(), subwords=True) != view.render(sentence())
        assert view.render_comparison(both, subwords=True) != view.render_comparison(both)
