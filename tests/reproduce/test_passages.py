"""Passages: questions have one answer, its sentence gives it, and held-out pairs stay out."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

import pytest

from whyformer.reproduce import passages
from whyformer.reproduce.passages import HELD_OUT, Fact, held_out_questions, passage

FACT = re.compile(r"(\w+) (?:put|left|hid|placed) the (\w+) (\w+) in the (\w+)\.")


def facts_in(sentences: tuple[str, ...]) -> list[tuple[str, ...] | None]:
    """Person, colour, thing and place of each sentence, read from its text alone."""
    found = [FACT.fullmatch(sentence) for sentence in sentences]
    return [None if one is None else one.groups() for one in found]


def reply(question: str, known: list[tuple[str, ...] | None]) -> list[tuple[str, int]]:
    """All answers to a question with their sentences, by searching the facts."""
    words = re.findall(r"\w+", question)
    if words[-2] in passages.COLOURS:  # where is, or who had, the red ball
        colour, thing = words[-2:]
        fits = [i for i, one in enumerate(known) if one and one[1:3] == (colour, thing)]
        column = 0 if words[0] == "Who" else 3
    elif words[-1] in passages.PLACES:
        fits = [i for i, one in enumerate(known) if one and one[3] == words[-1]]
        column = 1 if "colour" in words else 2
    else:
        fits = [i for i, one in enumerate(known) if one and one[2] == words[-1]]
        column = 1
    found = [known[i] for i in fits]
    return [(one[column], i) for one, i in zip(found, fits, strict=True) if one]


@pytest.mark.parametrize("first", [0, HELD_OUT])
def test_every_question_has_one_answer_and_it_stands_in_its_sentence(first: int) -> None:
    kinds: Counter[str] = Counter()
    for number in range(first, first + 60):
        read = passage(number)
        assert passages.FEWEST <= len(read.sentences) <= passages.MOST
        known = facts_in(read.sentences)
        for question in read.questions():
            assert reply(question.text, known) == [(question.value, question.support)]
            assert question.value in read.sentences[question.support]
            assert f" {question.value}." in question.answer
            kinds[question.kind] += 1
    assert set(kinds) == {"where", "who", "colour", "what"}


def test_held_out_pairs_never_meet_in_training() -> None:
    trained = [fact for number in range(300) for fact in passage(number).facts if fact]
    places = {(fact.thing, fact.place) for fact in trained}
    colours = {(fact.person, fact.colour) for fact in trained}
    assert len(places) > 80  # most of the 96 pairs that are not held out
    for number in range(HELD_OUT, HELD_OUT + 100):
        for fact in passage(number).facts:
            if fact:
                assert (fact.thing, fact.place) not in places
                assert (fact.person, fact.colour) not in colours


def test_which_pairs_are_held_out() -> None:
    assert Fact("Anna", "red", "ball", "kitchen").pairs() == (True, True)  # 0 + 0, 0 + 0
    assert Fact("Anna", "black", "book", "office").pairs() == (True, True)  # 1 + 4, 0 + 5
    assert Fact("Anna", "green", "ball", "garden").pairs() == (False, False)  # 0 + 1, 0 + 1
    assert not Fact("Ben", "red", "ball", "kitchen").is_reserved
    assert not Fact("Ben", "red", "ball", "kitchen").is_known


def test_a_passage_depends_on_its_number_alone() -> None:
    assert passage(7) == passage(7)
    assert passage(7) != passage(8)
    assert len(passage(7, sentences=5).sentences) == 5
    assert passage(7).questions() == passage(7).questions()


def test_no_thing_is_put_away_twice() -> None:
    for number in range(100):
        things = [(fact.colour, fact.thing) for fact in passage(number).facts if fact]
        assert len(things) == len(set(things)) >= 2


def test_held_out_questions_are_of_every_kind_equally_often() -> None:
    asked = list(held_out_questions(40))
    assert Counter(question.kind for _, question in asked) == dict.fromkeys(
        ("where", "who", "colour", "what"), 10
    )
    assert len({read.number for read, _ in asked}) == 40
    assert list(islice(held_out_questions(100), 40)) == asked
