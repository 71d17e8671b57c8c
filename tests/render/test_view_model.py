"""Readings: scales, sentences and words that all views share."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from whyformer.attribution import Attribution, Stream
from whyformer.attribution.conservation import describe_conservation
from whyformer.render.numbers import number
from whyformer.render.panels import ImagePanel, TextPanel, strongest_rows
from whyformer.render.signs import visible
from whyformer.render.view_model import read_samples

Make = Callable[..., Attribution]


def panel_of(attribution: Attribution) -> TextPanel:
    panel = read_samples(attribution)[0].panels[0]
    assert isinstance(panel, TextPanel)
    return panel


def test_words_are_whole_and_special_ones_known(sentence: Make) -> None:
    words = panel_of(sentence()).words
    assert [w.text for w in words] == ["[CLS]", "gripping", ",", "yet", "dull", "[SEP]"]
    assert [w.special for w in words] == [True, False, False, False, False, True]
    assert words[1].score == pytest.approx(0.8)


def test_the_scale_is_that_of_the_words_and_says_what_is_beyond(sentence: Make) -> None:
    panel = panel_of(sentence())
    assert panel.span == pytest.approx(0.8)
    assert [w.text for w in panel.words if panel.is_beyond(w)] == ["[SEP]"]
    assert "[SEP] (+4.000)" in panel.note
    assert panel.share(panel.words[-1]) == 1.0
    assert panel.share(panel.words[4]) == pytest.approx(-0.5)


def test_nothing_is_beyond_where_the_words_are_strongest(text: Make) -> None:
    panel = panel_of(text([("[CLS]", 0.1, None), ("good", 1.0, 0)]))
    assert not any(map(panel.is_beyond, panel.words))
    assert panel.note == ""


def test_special_tokens_alone_make_the_scale(text: Make) -> None:
    panel = panel_of(text([("[CLS]", 0.5, None), ("good", 0.0, 0)]))
    assert panel.span == 0.5


def test_all_zero_scores_divide_by_nothing(text: Make) -> None:
    panel = panel_of(text([("good", 0.0, 0), ("film", 0.0, 1)]))
    assert panel.span == 1.0
    assert [panel.share(w) for w in panel.words] == [0.0, 0.0]


@pytest.mark.parametrize(("low", "signed"), [(0.0, False), (-1e-9, False), (-0.1, True)])
def test_only_a_score_below_zero_makes_a_signed_scale(text: Make, low: float, signed: bool) -> None:
    assert panel_of(text([("a", 1.0, 0), ("b", low, 1)])).signed is signed


def test_bars_are_in_true_proportion(sentence: Make) -> None:
    rows = strongest_rows(panel_of(sentence()).rows, 2)
    assert [row.name for row in rows] == ["gripping", "dull", "[SEP]", "[CLS]"]
    assert rows[0].length == 1.0
    assert rows[1].length == pytest.approx(-0.5)
    assert rows[3].length == pytest.approx(0.125)


def test_tokens_without_text_are_numbered() -> None:
    scores = torch.tensor([[1.0, -1.0]])
    stream = Stream("tokens", scores, torch.ones(1, 2, dtype=torch.bool))
    attribution = Attribution(
        method="gae",
        streams={"tokens": stream},
        main="tokens",
        target=torch.tensor([-1]),
        output=torch.tensor([0.0]),
        labels=("output",),
    )
    assert [w.text for w in panel_of(attribution).words] == ["0", "1"]


def test_every_sample_is_read_without_its_padding() -> None:
    stream = Stream(
        "text",
        torch.tensor([[1.0, 2.0], [3.0, 0.0]]),
        torch.tensor([[True, True], [True, False]]),
        (("a", "b"), ("c", "[PAD]")),
        ((0, 1), (0, None)),
    )
    attribution = Attribution(
        method="gae",
        streams={"text": stream},
        main="text",
        target=torch.tensor([0, 1]),
        output=torch.tensor([1.0, 2.0]),
        labels=("x", "y"),
    )
    first, second = read_samples(attribution)
    assert (first.label, second.label) == ("x", "y")
    assert isinstance(second.panels[0], TextPanel)
    assert [w.text for w in second.panels[0].words] == ["c"]


def test_the_main_stream_comes_first(sentence: Make, image: Make) -> None:
    words, picture = sentence(), image(torch.ones(2, 2))
    both = Attribution(
        method="gae",
        streams={**words.streams, **picture.streams},
        main="image",
        target=words.target,
        output=words.output,
        labels=words.labels,
    )
    assert [panel.name for panel in read_samples(both)[0].panels] == ["image", "text"]


def test_an_image_names_its_patches_by_row_and_column(image: Make) -> None:
    patches = torch.zeros(2, 3)
    patches[1, 2] = -4.0
    panel = read_samples(image(patches))[0].panels[0]
    assert isinstance(panel, ImagePanel)
    assert panel.signed
    best = strongest_rows(panel.rows, 1)[0]
    assert (best.name, best.score) == ("row 2, column 3", -4.0)
    assert panel.shares.min() == -1


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (None, "not expected to sum"),
        (1.0, "Scores and sinks sum to the output."),
        (1.0001, "Scores and sinks sum to the output."),
        (0.83, "sum to 83 % of the output"),
        (1.2, "120 % of the output, which is too much"),
        (-0.2, "\N{MINUS SIGN}20 % of the output: the total has the opposite sign"),
        (math.nan, "The output is 0"),
        (math.inf, "The output is 0"),
    ],
)
def test_conservation_in_plain_words(share: float | None, expected: str) -> None:
    assert expected in describe_conservation(share)


def test_what_costs_the_sum_and_how_to_keep_it() -> None:
    assert 'activations="identity"' in describe_conservation(0.83, smooth=True)
    assert "identity" not in describe_conservation(1.0, smooth=True) + describe_conservation(0.83)


@pytest.mark.parametrize(
    ("value", "span", "text"),
    [
        (0.0, None, "0"),
        (1.5, None, "+1.50"),
        (-0.0312, None, "-0.0312"),
        (-12345.6, None, "-12346"),
        (1.5e-9, None, "+1.50e-09"),
        (-0.461, 1.5, "-0.46"),
        (0.001, 1.5, "0.00"),
        (-0.001, 1.5, "0.00"),
        (math.nan, None, "+nan"),
        (math.inf, 1.0, "+inf"),
    ],
)
def test_numbers(value: float, span: float | None, text: str) -> None:
    assert number(value, span) == text.replace("-", "\N{MINUS SIGN}")


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("film", "film"),
        (" film", "film"),
        ("New York", "New York"),
        ("\n", "⏎"),
        ("a\tb", "a⇥b"),
        ("  ", "␣"),
        ("", "∅"),
        ("\x1b[31mred", "�[31mred"),
        ("evil\u202etxt", "evil�txt"),
        ("\ud800", "�"),
        ("naïve", "naïve"),
        ("映画", "映画"),
        ("👩‍🚀", "👩‍🚀"),
    ],
)
def test_nothing_hidden_reaches_a_view(token: str, shown: str) -> None:
    assert visible(token) == shown
