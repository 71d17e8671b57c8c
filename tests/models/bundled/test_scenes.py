"""The scenes that the models of shapes were trained on: pictures fit questions and captions."""

from __future__ import annotations

import itertools

import numpy
import pytest

from whyformer.reproduce import scenes


@pytest.fixture(scope="module")
def many_scenes() -> list:
    """A hundred scenes."""
    return list(scenes.scenes(7, 100))


def test_a_number_is_a_scene() -> None:
    assert scenes.scene(3) == scenes.scene(3)
    assert scenes.scene(3).questions() == scenes.scene(3).questions()
    assert scenes.scene(3) != scenes.scene(scenes.HELD_OUT + 3)


def test_shapes_fill_their_boxes_and_keep_apart(many_scenes: list) -> None:
    for scene in many_scenes:
        assert 2 <= len(scene.shapes) <= 4
        assert len({shape.label for shape in scene.shapes}) == len(scene.shapes)
        masks = [scene.mask(shape) for shape in scene.shapes]
        assert numpy.stack(masks).sum(0).max() <= 1
        for mask, shape in zip(masks, scene.shapes, strict=True):
            rows, columns = mask.nonzero()
            x0, y0, x1, y1 = shape.box
            assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (
                x0,
                y0,
                x1,
                y1,
            )


def test_a_shape_is_painted_where_its_mask_is(many_scenes: list) -> None:
    for scene in many_scenes:
        pixels = numpy.asarray(scene.render())
        assert pixels.shape == (scenes.SIDE, scenes.SIDE, 3)
        empty = numpy.ones(pixels.shape[:2], dtype=bool)
        for shape in scene.shapes:
            mask = scene.mask(shape)
            assert (pixels[mask == 1] == shape.paint).all()
            empty &= mask == 0
        assert (pixels[empty] == scene.canvas).all()


def test_questions_have_one_answer(many_scenes: list) -> None:
    for scene in many_scenes:
        for question in scene.questions():
            assert question.answer in scenes.ANSWERS
            said = question.text.rstrip("?").split()
            kinds = [kind for kind in scenes.KINDS if kind in said]
            colours = [colour for colour in scenes.COLOURS if colour in said]
            fits = [
                i
                for i, shape in enumerate(scene.shapes)
                if (not kinds or shape.kind in kinds) and (not colours or shape.colour in colours)
            ]
            if question.answer in (scenes.YES, scenes.NO):
                assert (question.answer == scenes.YES) == bool(fits)
            else:
                shape = scene.shapes[question.about]
                assert question.answer == (shape.colour if kinds else shape.kind)
            assert fits == ([] if question.about is None else [question.about])


def test_captions_go_from_left_to_right(many_scenes: list) -> None:
    for scene in many_scenes:
        middles = [shape.middle[0] for shape in scene.shapes]
        assert all(b - a >= scenes.STAGGER for a, b in itertools.pairwise(middles))
        caption = scene.caption()
        places = [caption.index(shape.label) for shape in scene.shapes]
        assert places == sorted(places)


def test_answers_are_balanced() -> None:
    asked = [question for scene in scenes.scenes(0, 600) for question in scene.questions()]
    for group in (scenes.COLOURS, scenes.KINDS, (scenes.YES, scenes.NO)):
        counts = [sum(question.answer == answer for question in asked) for answer in group]
        assert max(counts) < 1.4 * min(counts)
