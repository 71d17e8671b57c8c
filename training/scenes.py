"""A small world with known truth: coloured shapes on a canvas, questions about them, captions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy
from PIL import Image, ImageDraw

SIDE = 192  # pixels of a canvas, both ways
SMALLEST, LARGEST = 36, 60  # pixels of a shape, both ways
APART = 6  # pixels between two shapes, and between a shape and the border
STAGGER = 12  # pixels between the middles of two shapes from left to right: an order to read in
FINENESS = 4  # a shape is drawn that many times larger, then reduced: smooth edges

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

# Scenes to measure on have numbers from here on; scenes to train on have smaller ones.
HELD_OUT = 1_000_000_000

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Shape:
    """One shape: what it is, and the box (x0, y0, x1, y1) in pixels that it just fills."""

    kind: str
    colour: str
    box: Box
    paint: tuple[int, int, int]  # the colour as it is drawn, near the one in COLOURS

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

    `about` is None where the answer is no: there is no such shape to look at.
    """

    text: str
    answer: str
    about: int | None


@dataclass(frozen=True)
class Scene:
    """Two to four shapes, none over another and no two alike, from left to right."""

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
        """Where the shape is: (SIDE, SIDE) of 0..1, in between on its edges."""
        image = Image.new("L", (SIDE, SIDE))
        image.paste(_stencil(shape.kind, _side(shape)), shape.box)
        return numpy.asarray(image, dtype=numpy.float32) / 255

    def caption(self) -> str:
        """The shapes from left to right, such as "a red circle and a blue square"."""
        names = [f"a {shape.label}" for shape in self.shapes]
        return " and ".join([", ".join(names[:-1]), names[-1]])

    def questions(self) -> list[Question]:
        """Whatever can be asked without doubt, each in one wording, and one yes-or-no question.

        The colour of a shape is asked for where no other has its kind, and the other way round.
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
        """A yes-or-no question; half of the shapes asked for in vain are here in parts."""
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
    """The scene of that number: always the same one."""
    chance = numpy.random.default_rng((number, 0))
    count = int(chance.integers(2, 5))
    while True:
        shapes = _placed(chance, count)
        if shapes is not None:
            break
    light = chance.integers(236, 254)
    tint = light + chance.integers(-6, 3, size=3)
    return Scene(number, shapes, _colour(tint))


def scenes(first: int, count: int) -> Iterator[Scene]:
    """That many scenes, from number `first` on."""
    return (scene(number) for number in range(first, first + count))


def _placed(chance: numpy.random.Generator, count: int) -> tuple[Shape, ...] | None:
    """Shapes that keep their distance, from left to right; None where they found no room."""
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
    """Whether two shapes neither touch nor stand right above one another."""
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = one.box, other.box
    beside = ax1 + APART <= bx0 or bx1 + APART <= ax0
    above = ay1 + APART <= by0 or by1 + APART <= ay0
    return (beside or above) and abs(one.middle[0] - other.middle[0]) >= STAGGER


def _colour(values: numpy.ndarray) -> tuple[int, int, int]:
    """Three channels within 0..255."""
    red, green, blue = (int(value) for value in numpy.clip(values, 0, 255))
    return red, green, blue


def _side(shape: Shape) -> int:
    """Pixels of the shape's box, both ways."""
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
    """The corners of a shape that fills 0..1 both ways."""
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
