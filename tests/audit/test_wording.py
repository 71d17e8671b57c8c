"""Words, kinds and hits of texts whose scores were written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from whyformer.audit.explaining import Explained
from whyformer.audit.wording import CONTENT, FUNCTION, PUNCTUATION, SPECIAL, Reading, pattern

Make = Callable[..., Explained]
SMALL = {"the", "is", "it's"}


@pytest.fixture
def reading(explained: Make) -> Reading:
    """'[CLS] the film-plot is good . [SEP]', of which 'film-plot' is three tokens; |scores| 10."""
    text = "The film-plot is good."
    tokens: list[tuple[Any, float]] = [
        (None, 1.0),
        ((0, 3), 0.5),
        ((4, 8), 2.0),
        ((8, 9), -0.5),
        ((9, 13), -1.0),
        ((14, 16), 0.5),
        ((17, 21), 3.0),
        ((21, 22), -0.5),
        (None, 1.0),
    ]
    return Reading(explained(text, tokens), SMALL)


def test_words_are_those_of_the_text(reading: Reading) -> None:
    assert [(w.text, w.kind, w.tokens) for w in reading.words] == [
        ("the", FUNCTION, (1,)),
        ("film-plot", CONTENT, (2, 3, 4)),
        ("is", FUNCTION, (5,)),
        ("good", CONTENT, (6,)),
    ]
    word = reading.words[1]
    assert (word.relevance, word.share) == pytest.approx((0.5, 0.35))


def test_the_kinds_share_everything(reading: Reading) -> None:
    assert {kind: found for kind, (found, _) in reading.kinds.items()} == pytest.approx(
        {CONTENT: 0.65, FUNCTION: 0.1, PUNCTUATION: 0.05, SPECIAL: 0.2}
    )
    assert {kind: even for kind, (_, even) in reading.kinds.items()} == pytest.approx(
        {CONTENT: 4 / 9, FUNCTION: 2 / 9, PUNCTUATION: 1 / 9, SPECIAL: 2 / 9}
    )


def test_a_term_is_found_as_whole_words_in_any_case(reading: Reading) -> None:
    hit = reading.find(7, pattern("GOOD"))
    assert hit is not None
    assert (hit.sample, hit.relevance, hit.share) == pytest.approx((7, 3.0, 0.3))
    assert hit.others == pytest.approx((0.05 + 0.35 + 0.05) / 3)
    assert not hit.top
    assert hit.chance == pytest.approx(0.25)
    assert reading.find(0, pattern("goo")) is None
    assert reading.find(0, pattern("absent")) is None


def test_a_term_of_several_words_counts_per_word(reading: Reading) -> None:
    hit = reading.find(0, pattern("film-plot  is"))
    assert hit is not None
    assert hit.share == pytest.approx(0.4)
    assert hit.per_word == pytest.approx(0.2)
    assert hit.others == pytest.approx((0.05 + 0.3) / 2)
    assert hit.top
    assert hit.chance == pytest.approx(0.5)


def test_a_part_of_a_hyphenated_word_is_a_term_of_its_own_tokens(reading: Reading) -> None:
    hit = reading.find(0, pattern("plot"))
    assert hit is not None
    assert hit.relevance == pytest.approx(-1.0)
    assert hit.share == pytest.approx(0.1)


def test_every_occurrence_counts(explained: Make) -> None:
    found = explained("Bob saw Bob", [((0, 3), 1.0), ((4, 7), 2.0), ((8, 11), -1.0)])
    reading = Reading(found, SMALL)
    hit = reading.find(0, pattern("bob"))
    assert hit is not None
    assert (hit.relevance, hit.share, hit.per_word) == pytest.approx((0.0, 0.5, 0.25))
    assert reading.every_word(0)["bob"] == hit
    assert set(reading.every_word(0)) == {"bob", "saw"}


def test_a_term_behind_what_the_model_read_does_not_occur(explained: Make) -> None:
    reading = Reading(explained("the film Bob", [((0, 3), 1.0), ((4, 8), 1.0)]), SMALL)
    assert reading.find(0, pattern("Bob")) is None
    assert [word.text for word in reading.words] == ["the", "film"]


def test_no_relevance_at_all_divides_by_nothing(explained: Make) -> None:
    reading = Reading(explained("film", [(None, 0.0), ((0, 4), 0.0)]), SMALL)
    assert reading.kinds[CONTENT] == pytest.approx((0.0, 0.5))
    hit = reading.find(0, pattern("film"))
    assert hit is not None
    assert (hit.share, hit.others) == (0.0, None)


def test_a_text_of_signs_has_no_top_word(explained: Make) -> None:
    reading = Reading(explained("!?", [((0, 1), 1.0), ((1, 2), 1.0)]), SMALL)
    assert reading.top is None
    assert reading.kinds[PUNCTUATION] == pytest.approx((1.0, 1.0))


def test_contractions_and_pairs(explained: Make) -> None:
    found = explained(
        ("It\N{RIGHT SINGLE QUOTATION MARK}s", "a film"),
        [((0, 0, 2), 1.0), ((0, 2, 4), 1.0), ((1, 0, 1), 1.0), ((1, 2, 6), 1.0)],
    )
    reading = Reading(found, SMALL)
    assert [(w.part, w.kind, w.tokens) for w in reading.words] == [
        (0, FUNCTION, (0, 1)),
        (1, CONTENT, (2,)),
        (1, CONTENT, (3,)),
    ]


@pytest.mark.parametrize(
    ("term", "text", "there"),
    [
        ("New York", "in new\n york.", True),
        ("New York", "a new Yorker", False),
        ("#metoo", "say #MeToo now", True),
        ("c++", "in C++, say", True),
        ("a.b", "axb", False),
        ("Anna", "Anna's film", True),
        ("naïve", "so Naïve", True),
    ],
)
def test_patterns(term: str, text: str, there: bool) -> None:
    assert bool(pattern(term).search(text)) is there
