"""Questions about held-out scenes, drawn on demand, with the shape that each is about."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy

from whyformer.datasets import Mask, Sample
from whyformer.reproduce import scenes
from whyformer.reproduce.scenes import Question, Scene


def held_out_questions(count: int, seed: int = 0) -> Iterator[tuple[Scene, Question]]:
    """Yield `count` held-out scenes, each with one question about one of its shapes.

    One question per scene keeps them independent. Questions whose answer is "no" are about no
    shape and are left out.
    """
    chance = numpy.random.default_rng(seed)
    numbers = itertools.count(scenes.HELD_OUT)
    while count:
        drawing = scenes.scene(next(numbers))
        about_one = [one for one in drawing.questions() if one.about is not None]
        if about_one:  # some scenes have only one question, and its answer is no
            yield drawing, about_one[int(chance.integers(len(about_one)))]
            count -= 1


def question_samples(count: int, seed: int = 0) -> list[Sample]:
    """Return questions as samples, with the answer and the box of the shape as a mask."""
    return [_sample(drawing, one) for drawing, one in held_out_questions(count, seed)]


def _sample(drawing: Scene, question: Question) -> Sample:
    assert question.about is not None
    left, top, right, bottom = drawing.shapes[question.about].box
    box = numpy.zeros((scenes.SIDE, scenes.SIDE), dtype=numpy.uint8)
    box[top:bottom, left:right] = 1
    inputs = {"text": question.text, "image": drawing.render()}
    name = f"scene/{drawing.number - scenes.HELD_OUT}"
    return Sample(name, inputs, question.answer, question.answer, {"mask": Mask(box)})
