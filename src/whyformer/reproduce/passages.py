"""Short passages of a small world; the answers to questions and their sentences are known."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

PEOPLE = (
    *("Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Hugo"),
    *("Ida", "Jonas", "Klara", "Leo", "Mia", "Noah", "Olga", "Paul"),
)
COLOURS = ("red", "green", "blue", "yellow", "purple", "black", "white", "brown")
THINGS = (
    *("ball", "book", "cup", "hat", "key", "lamp"),
    *("coat", "ring", "bag", "clock", "plate", "scarf"),
)
PLACES = (
    *("kitchen", "garden", "garage", "bedroom", "office"),
    *("attic", "cellar", "hall", "bathroom", "shed"),
)
VERBS = ("put", "left", "hid", "placed")
FACT = "{person} {verb} the {colour} {thing} in the {place}."
FILLERS = ("{person} went to the {place}.", "{person} looked for the {thing}.")

WHERE = ("Where is the {colour} {thing}?", "Where can I find the {colour} {thing}?")
WHO = ("Who put away the {colour} {thing}?", "Who had the {colour} {thing}?")
COLOUR_OF_THING = ("What colour is the {thing}?", "What is the colour of the {thing}?")
COLOUR_IN_PLACE = (
    "What colour is the thing in the {place}?",
    "What is the colour of the thing in the {place}?",
)
WHAT = ("What is in the {place}?", "Which thing is in the {place}?")

FEWEST, MOST = 3, 8  # sentences of a passage
FILLER = 0.2  # chance that a sentence is not about where a thing is
ALIKE = 0.4  # chance that a thing or a colour was mentioned before
RESERVED = 5  # one in so many pairs occurs in held-out passages only

# Held-out passages have numbers from here on; training passages have smaller ones.
HELD_OUT = 1_000_000_000


@dataclass(frozen=True)
class Fact:
    """Who put which thing where."""

    person: str
    colour: str
    thing: str
    place: str

    @property
    def is_reserved(self) -> bool:
        """Whether neither the thing and the place nor the person and the colour met in training."""
        return self.pairs() == (True, True)

    @property
    def is_known(self) -> bool:
        """Whether both pairs may occur in training."""
        return self.pairs() == (False, False)

    def pairs(self) -> tuple[bool, bool]:
        """Whether the thing with the place, and the person with the colour, are held out."""
        return (
            (THINGS.index(self.thing) + PLACES.index(self.place)) % RESERVED == 0,
            (PEOPLE.index(self.person) + COLOURS.index(self.colour)) % RESERVED == 0,
        )


@dataclass(frozen=True)
class PassageQuestion:
    """A question about a passage.

    `value` is the word of the answer that the passage must give, and `support` is the index of
    the only sentence that gives it.
    """

    kind: str  # where, who, colour or what
    text: str
    answer: str
    value: str
    support: int


@dataclass(frozen=True)
class Passage:
    """Sentences about people, things and places; a sentence without a fact answers no question."""

    number: int
    sentences: tuple[str, ...]
    facts: tuple[Fact | None, ...]

    @property
    def text(self) -> str:
        """The sentences with a space between them."""
        return " ".join(self.sentences)

    def questions(self) -> list[PassageQuestion]:
        """Return all questions with a unique answer, each in one random wording.

        No thing is put away twice. The colour of a thing is asked if no other thing of its kind
        was put away; the thing in a place if no other thing was put there.
        """
        chance = random.Random(f"questions {self.number}")
        things = Counter(fact.thing for fact in self.facts if fact)
        places = Counter(fact.place for fact in self.facts if fact)
        found = []
        for i, fact in enumerate(self.facts):
            if fact is None:
                continue
            asked = [("where", WHERE), ("who", WHO)]
            if things[fact.thing] == 1:
                asked.append(("colour", COLOUR_OF_THING))
            if places[fact.place] == 1:
                asked += [("colour", COLOUR_IN_PLACE), ("what", WHAT)]
            for kind, wordings in asked:
                text = chance.choice(wordings).format(**vars(fact))
                found.append(PassageQuestion(kind, text, *_answer(kind, fact), i))
        return found


def passage(number: int, sentences: int | None = None) -> Passage:
    """Return the passage with this number; it is always the same.

    Every fact of a held-out passage joins a thing with a place, and a person with a colour, that
    no training passage joins.

    Args:
        number: Its number, from `HELD_OUT` on for a held-out passage.
        sentences: How many sentences it has; by default 3 to 8, at random.
    """
    chance = random.Random(f"passage {number}")
    count = chance.randint(FEWEST, MOST) if sentences is None else sentences
    with_fact = [chance.random() >= FILLER for _ in range(count)]
    for i in chance.sample(range(count), min(2, count)):
        with_fact[i] = True  # at least two, so that there is something to choose from
    facts: list[Fact | None] = []
    texts = []
    for has_fact in with_fact:
        fact = _draw_fact(chance, [one for one in facts if one], number >= HELD_OUT)
        wording = FACT if has_fact else chance.choice(FILLERS)
        texts.append(wording.format(verb=chance.choice(VERBS), **vars(fact)))
        facts.append(fact if has_fact else None)
    return Passage(number, tuple(texts), tuple(facts))


def held_out_questions(count: int) -> Iterator[tuple[Passage, PassageQuestion]]:
    """Yield `count` held-out passages, each with one of its questions, every kind equally often."""
    kinds = ("where", "who", "colour", "what")
    number = HELD_OUT
    for i in range(count):
        while True:
            read = passage(number)
            asked = [one for one in read.questions() if one.kind == kinds[i % len(kinds)]]
            number += 1
            if asked:
                yield read, random.Random(f"question {read.number}").choice(asked)
                break


def _draw_fact(chance: random.Random, earlier: list[Fact], held_out: bool) -> Fact:
    """A fact about a thing that no earlier fact is about, often with its colour or its kind."""
    taken = {(fact.colour, fact.thing) for fact in earlier}
    while True:
        colour, thing = chance.choice(COLOURS), chance.choice(THINGS)
        if earlier and chance.random() < ALIKE:
            other = chance.choice(earlier)
            colour, thing = chance.choice(((other.colour, thing), (colour, other.thing)))
        fact = Fact(chance.choice(PEOPLE), colour, thing, chance.choice(PLACES))
        if (colour, thing) not in taken and (fact.is_reserved if held_out else fact.is_known):
            return fact


def _answer(kind: str, fact: Fact) -> tuple[str, str]:
    """The answer, and the word in it that the passage must give."""
    return {
        "where": (f"In the {fact.place}.", fact.place),
        "who": (f"It was {fact.person}.", fact.person),
        "colour": (f"It is {fact.colour}.", fact.colour),
        "what": (f"The {fact.colour} {fact.thing}.", fact.thing),
    }[kind]
