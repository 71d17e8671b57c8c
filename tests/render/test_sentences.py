"""Sentences: where a reader would end them, and never a word lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyformer.render.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She left . He stayed .", ["She left .", "He stayed ."]),
        ("She left. He stayed.", ["She left.", "He stayed."]),
        ("Did she ? Yes ! Good", ["Did she ?", "Yes !", "Good"]),
        ('He said " Go . " Then he left .', ['He said " Go . "', "Then he left ."]),
        ("See e.g. this one .", ["See e.g. this one ."]),
        ("she left . he stayed .", ["she left .", "he stayed ."]),
        ("it costs 3 . 50 euros .", ["it costs 3 . 50 euros ."]),
        ("J. Smith met A . Jones .", ["J. Smith met A . Jones ."]),
        ("and so on . . . Then", ["and so on . . .", "Then"]),
        ("first line ⏎ second ⏎ ⏎ third", ["first line ⏎", "second ⏎ ⏎", "third"]),
        ("The end . ⏎ Next", ["The end . ⏎", "Next"]),
        ("彼は来た。 彼女も来た。", ["彼は来た。", "彼女も来た。"]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_would(text: str, expected: list[str]) -> None:
    words = text.split()
    found = split_sentences(words)
    assert [" ".join(words[start:end]) for start, end in found] == expected


def test_a_message_starts_a_sentence() -> None:
    assert split_sentences(list("abcdef"), breaks={2, 3}) == ((0, 2), (2, 3), (3, 6))


def test_what_has_no_full_stop_is_cut() -> None:
    assert split_sentences(["x"] * 7, longest=3) == ((0, 3), (3, 6), (6, 7))


@given(st.lists(st.text(max_size=4), max_size=30), st.sets(st.integers(0, 30)))
def test_every_word_is_in_one_sentence(words: list[str], breaks: set[int]) -> None:
    found = split_sentences(words, breaks, longest=8)
    assert [i for start, end in found for i in range(start, end)] == list(range(len(words)))
    assert all(0 < end - start <= 8 for start, end in found)
