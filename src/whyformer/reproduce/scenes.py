"""Scenes of coloured shapes, with questions and captions whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy
from PIL import Image, ImageDraw

SIDE = 192  # pixels of the canvas, in both directions
SMALLEST, LARGEST = 36, 60  # pixels of a shape, in both directions
APART = 6  # pixels between two shapes, and between a shape and the border
STAGGER = (
    12  # pixels between the middles of two shapes from left to right: gives a clear reading order
)
FINENESS = 4  # a shape is drawn this many times larger and then reduced, for smooth edges

KINDS = ("circle", "square", "triangle", "star", "cross")
COLOURS = {
    "red": (215, 45, 45),
    "green": (50, 160, 70),
    "blue": (45, 95, 215),
    "yellow": (240, 200, 40),
    "purple": (145, 70, 185),
    "black": (40, 40, 45),
}
YES, NO = "yes", "no"
ANSWERS = (*COLOURS, *KINDS, YES, NO)
LABELS = tuple(f"{colour} {kind}" for colour in COLOURS for kind in KINDS)

COLOUR_QUESTIONS = (
    "what colour is the {kind}?",
    "what color is the {kind}?",
    "which colour does the {kind} have?",
    "what is the colour of the {kind}?",
)
KIND_QUESTIONS = (
    "what shape is the {colour} thing?",
    "what is the {colour} shape?",
    "which shape is {colour}?",
    "what is the {colour} thing?",
)
PRESENCE_QUESTIONS = ("is there a {colour} {kind}?", "do you see a {colour} {kind}?")

# Held-out scenes have numbers from here on; training scenes have smaller ones.
HELD_OUT = 1_000_000_000

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Shape:
    """One shape: what it is, and its bounding box (x0, y0, x1, y1) in pixels."""

    kind: str
    colour: str
    box: Box
    paint: tuple[int, int, int]  # the drawn colour, close to the one in COLOURS

    @property
    def label(self) -> str:
        """Colour and kind, such as "red circle"."""
        return f"{self.colour} {self.kind}"

    @property
    def middle(self) -> tuple[float, float]:
        """(x, y) of the middle of the box."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


@dataclass(frozen=True)
class Question:
    """A question with its answer, and which shape of the scene it is about.

    `about` is None if the answer is no: the scene has no such shape.
    """

    text: str
    answer: str
    about: int | None


@dataclass(frozen=True)
class Scene:
    """Two to four different shapes that do not overlap, from left to right."""

    number: int
    shapes: tuple[Shape, ...]
    canvas: tuple[int, int, int]

    def render(self) -> Image.Image:
        """The scene as an image of SIDE x SIDE pixels."""
        image = Image.new("RGB", (SIDE, SIDE), self.canvas)
        for shape in self.shapes:
            image.paste(shape.paint, shape.box, _stencil(shape.kind, _side(shape)))
        return image

    def mask(self, shape: Shape) -> numpy.ndarray:
        """Where the shape is: (SIDE, SIDE) of 0..1, with values between on its edges."""
        image = Image.new("L", (SIDE, SIDE))
        image.paste(_stencil(shape.kind, _side(shape)), shape.box)
        return numpy.asarray(image, dtype=numpy.float32) / 255

    def caption(self) -> str:
        """The shapes from left to right, such as "a red circle and a blue square"."""
        names = [f"a {shape.label}" for shape in self.shapes]
        return " and ".join([", ".join(names[:-1]), names[-1]])

    def questions(self) -> list[Question]:
        """Return all questions with a unique answer, and one yes-or-no question.

        There is a question about the colour of a shape if no other shape has its kind, and about
        its kind if no other shape has its colour. Each question has one random wording.
        """
        chance = numpy.random.default_rng((self.number, 1))
        kinds = [shape.kind for shape in self.shapes]
        colours = [shape.colour for shape in self.shapes]
        found = []
        for i, (kind, colour) in enumerate(zip(kinds, colours, strict=True)):
            if kinds.count(kind) == 1:
                wording = str(chance.choice(COLOUR_QUESTIONS))
                found.append(Question(wording.format(kind=kind), colour, i))
            if colours.count(colour) == 1:
                wording = str(chance.choice(KIND_QUESTIONS))
                found.append(Question(wording.format(colour=colour), kind, i))
        found.append(self._presence(chance))
        return found

    def _presence(self, chance: numpy.random.Generator) -> Question:
        """A yes-or-no question; half of the absent shapes mix a colour and a kind of the scene."""
        wording = str(chance.choice(PRESENCE_QUESTIONS))
        if chance.random() < 0.5:
            about = int(chance.integers(len(self.shapes)))
            shape = self.shapes[about]
            return Question(wording.format(kind=shape.kind, colour=shape.colour), YES, about)
        here = {shape.label for shape in self.shapes}
        parts = [
            f"{one.colour} {other.kind}"
            for one in self.shapes
            for other in self.shapes
            if f"{one.colour} {other.kind}" not in here
        ]
        absent = [label for label in LABELS if label not in here]
        chosen = parts if parts and chance.random() < 0.5 else absent
        colour, kind = str(chance.choice(chosen)).split()
        return Question(wording.format(kind=kind, colour=colour), NO, None)


def scene(number: int) -> Scene:
    """Return the scene with this number; it is always the same."""
    chance = numpy.random.default_rng((number, 0))
    count = int(chance.integers(2, 5))
    while True:
        shapes = _place_shapes(chance, count)
        if shapes is not None:
            break
    light = chance.integers(236, 254)
    tint = light + chance.integers(-6, 3, size=3)
    return Scene(number, shapes, _colour(tint))


def scenes(first: int, count: int) -> Iterator[Scene]:
    """Yield `count` scenes, starting with the number `first`."""
    return (scene(number) for number in range(first, first + count))


def _place_shapes(chance: numpy.random.Generator, count: int) -> tuple[Shape, ...] | None:
    """Shapes at a distance from each other, from left to right; None if there is no room."""
    labels = chance.choice(len(LABELS), size=count, replace=False)
    shapes: list[Shape] = []
    for label in labels:
        colour, kind = LABELS[label].split()
        paint = numpy.array(COLOURS[colour]) + chance.integers(-14, 15, size=3)
        for _ in range(50):
            side = int(chance.integers(SMALLEST, LARGEST + 1))
            x, y = (int(at) for at in chance.integers(APART, SIDE - APART - side + 1, size=2))
            shape = Shape(kind, colour, (x, y, x + side, y + side), _colour(paint))
            if all(_apart(shape, other) for other in shapes):
                shapes.append(shape)
                break
        else:
            return None
    return tuple(sorted(shapes, key=lambda shape: shape.middle))


def _apart(one: Shape, other: Shape) -> bool:
    """Whether two shapes have enough distance, also from left to right."""
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = one.box, other.box
    beside = ax1 + APART <= bx0 or bx1 + APART <= ax0
    above = ay1 + APART <= by0 or by1 + APART <= ay0
    return (beside or above) and abs(one.middle[0] - other.middle[0]) >= STAGGER


def _colour(values: numpy.ndarray) -> tuple[int, int, int]:
    """Three channels within 0..255."""
    red, green, blue = (int(value) for value in numpy.clip(values, 0, 255))
    return red, green, blue


def _side(shape: Shape) -> int:
    """Width and height of the shape's box in pixels."""
    return shape.box[2] - shape.box[0]


@cache
def _stencil(kind: str, side: int) -> Image.Image:
    """The shape in white on black, filling side x side pixels."""
    large = side * FINENESS
    image = Image.new("L", (large, large))
    draw = ImageDraw.Draw(image)
    if kind == "circle":
        draw.ellipse((0, 0, large - 1, large - 1), fill=255)
    else:
        draw.polygon([(x * (large - 1), y * (large - 1)) for x, y in _corners(kind)], fill=255)
    return image.resize((side, side), Image.Resampling.BOX)


def _corners(kind: str) -> list[tuple[float, float]]:
    """The corners of a shape that fills 0..1 in both directions."""
    if kind == "square":
        return [(0, 0), (1, 0), (1, 1), (0, 1)]
    if kind == "triangle":
        return [(0.5, 0), (1, 1), (0, 1)]
    if kind == "cross":
        a, b = 1 / 3, 2 / 3
        return [
            *((a, 0), (b, 0), (b, a), (1, a), (1, b), (b, b)),
            *((b, 1), (a, 1), (a, b), (0, b), (0, a), (a, a)),
        ]
    points = []
    for i in range(10):
        reach = 1.0 if i % 2 == 0 else 0.4
        angle = math.pi * i / 5
        points.append((reach * math.sin(angle), -reach * math.cos(angle)))
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top, bottom = min(y for _, y in points), max(y for _, y in points)
    return [((x - left) / (right - left), (y - top) / (bottom - top)) for x, y in points]
