"""Between streams: tokens joined to words on both sides, and nothing shown that is not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from whyformer.attribution import Attribution, Stream
from whyformer.render.panels import ImagePanel, TextPanel
from whyformer.render.relevance_matrix import Item, RelevanceMatrix, sum_to_words, word_positions
from whyformer.render.view_model import ONE_SCALE, OWN_SCALE, SampleContent, read_samples

Make = Callable[..., Attribution]


def matrix(content: SampleContent, asking: str, answering: str) -> RelevanceMatrix:
    (found,) = (m for m in content.matrices if (m.asking, m.answering) == (asking, answering))
    return found


def texts(items: tuple[Item, ...]) -> list[str]:
    return [item.text for item in items]


@pytest.mark.parametrize(
    ("ids", "groups"),
    [
        ([], []),
        ([None, 0, 0, 1, None], [[0], [1, 2], [3], [4]]),
        ([None, None], [[0], [1]]),
        ([0, 1, 0], [[0], [1], [2]]),
    ],
)
def test_tokens_join_as_words_do(ids: list[int | None], groups: list[list[int]]) -> None:
    assert word_positions(ids) == groups


def test_rows_and_columns_are_added_up() -> None:
    values = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    merged = sum_to_words(values, [[0, 2], [1]], [[0], [1, 3]])
    assert merged.tolist() == [[8.0, 1 + 3 + 9 + 11], [4.0, 5.0 + 7.0]]


def test_words_ask_and_patches_answer(question: Make) -> None:
    made = question()
    content = read_samples(made)[0]
    there = matrix(content, "text", "image")
    assert texts(there.rows) == ["[CLS]", "what", "colour", "is", "the", "ball", "?", "[SEP]"]
    assert texts(there.columns)[:2] == ["row 1, column 1", "row 1, column 2"]
    tokens = made.maps["text", "image"][0].double()
    assert torch.allclose(there.values[2], tokens[2] + tokens[3])
    assert torch.allclose(there.values[5], tokens[6])
    back = matrix(content, "image", "text")
    patches = made.maps["image", "text"][0].double()
    assert torch.allclose(back.values[:, 2], patches[:, 2] + patches[:, 3])


def test_maps_within_a_stream_link_nothing(matching: Make, sentence: Make) -> None:
    assert read_samples(matching())[0].matrices == ()
    assert read_samples(sentence(maps={("text", "text"): torch.eye(7)[None]}))[0].matrices == ()


def test_padding_is_no_row_and_no_column(question: Make) -> None:
    made = question()
    text = made.streams["text"]
    mask = text.mask.clone()
    mask[0, 0] = False
    padded = dataclasses.replace(
        made, streams={**made.streams, "text": dataclasses.replace(text, mask=mask)}
    )
    there = matrix(read_samples(padded)[0], "text", "image")
    assert texts(there.rows)[:2] == ["what", "colour"]
    tokens = made.maps["text", "image"][0].double()
    assert torch.allclose(there.values[1], tokens[2] + tokens[3])


def test_patches_of_padding_keep_the_others_in_place(question: Make) -> None:
    made = question()
    image = made.streams["image"]
    mask = image.mask.clone()
    mask[0, -8:] = False  # the last row
    padded = dataclasses.replace(
        made, streams={**made.streams, "image": dataclasses.replace(image, mask=mask)}
    )
    panel = read_samples(padded)[0].panels[1]
    assert isinstance(panel, ImagePanel)
    assert panel.patches.shape == (6, 8)
    assert matrix(read_samples(padded)[0], "text", "image").values.shape == (8, 48)


def test_an_image_that_lost_patches_is_numbered(question: Make) -> None:
    made = question()
    image = made.streams["image"]
    cut = dataclasses.replace(image, scores=image.scores[:, :5], mask=image.mask[:, :5])
    panel = read_samples(dataclasses.replace(made, streams={"image": cut}, main="image", maps={}))[
        0
    ].panels
    assert isinstance(panel[0], TextPanel)
    assert panel[0].words[4].text == "region 4"


def test_what_was_said_is_joined_by_the_words_it_became(translation: Make) -> None:
    made = translation()
    content = read_samples(made)[0]
    over = matrix(content, "generated", "source")
    assert texts(over.rows) == ["dieser", "Film", "ist", "großartig", "</s>"]
    assert texts(over.columns) == ["this", "film", "is", "magnificent", "</s>"]
    tokens = made.maps["generated", "source"][0].double()
    assert over.values[3, 3] == pytest.approx(float(tokens[3:5, 3:5].sum()))
    assert over.values[0, 0] == pytest.approx(float(tokens[0, 0]))
    before = matrix(content, "generated", "generated")
    assert texts(before.columns) == ["<pad>", "dieser", "Film", "ist", "großartig"]
    assert before.generated
    assert over.generated
    panel = content.panels[1]
    assert isinstance(panel, TextPanel)
    assert texts(panel.output_words) == texts(over.rows)


def test_what_is_not_said_is_no_row(translation: Make) -> None:
    made = translation()
    stream = made.streams["generated"]
    assert stream.said is not None
    silent = dataclasses.replace(stream, said=(("", *stream.said[0][1:]),))
    made = dataclasses.replace(made, streams={**made.streams, "generated": silent})
    assert texts(matrix(read_samples(made)[0], "generated", "source").rows)[0] == "Film"


def test_said_without_known_words_stays_in_tokens(translation: Make) -> None:
    made = translation()
    other = dataclasses.replace(made.streams["generated"], said=(tuple("abcdef"),))
    made = dataclasses.replace(made, streams={**made.streams, "generated": other})
    assert texts(matrix(read_samples(made)[0], "generated", "source").rows) == list("abcdef")


def test_generated_tokens_that_are_the_output_are_not_said_twice(continuation: Make) -> None:
    content = read_samples(continuation())[0]
    panel = content.panels[1]
    assert isinstance(panel, TextPanel)
    assert panel.output_words == ()
    (over,) = content.generated
    assert texts(over.rows) == ["time", "there", "was"]
    assert texts(over.columns) == ["once", "upon", "a"]


def test_an_output_over_patches_is_no_table(caption: Make) -> None:
    content = read_samples(caption())[0]
    assert content.generated == []
    assert [m.answering for m in content.matrices] == ["image"]


def test_streams_without_words_are_numbered_by_what_they_are(regions: Make) -> None:
    text, image = read_samples(regions())[0].panels
    assert isinstance(image, TextPanel)
    assert [word.text for word in image.words[:2]] == ["region 0", "region 1"]
    assert (text.unit, image.unit) == ("words", "regions")


def test_one_scale_where_scores_add_up_else_one_each(question: Make) -> None:
    own = read_samples(question())[0]
    assert own.scales == OWN_SCALE
    assert [p.span for p in own.panels] == pytest.approx([0.65, 0.478], abs=0.001)
    one = read_samples(question(conservation=torch.tensor([1.0])))[0]
    assert one.scales == ONE_SCALE
    assert [p.span for p in one.panels] == pytest.approx([0.65, 0.65])
    assert all(p.signed for p in one.panels)
    assert isinstance(one.panels[0], TextPanel)
    assert "the strongest token of all streams" in one.panels[0].note


def test_a_stream_without_scores_makes_no_scale(caption: Make) -> None:
    made = caption(conservation=torch.tensor([1.0]))
    image = made.streams["image"]
    weak = dataclasses.replace(image, scores=image.scores * 1e-3)
    content = read_samples(dataclasses.replace(made, streams={**made.streams, "image": weak}))[0]
    assert [panel.silent for panel in content.panels] == [False, True]
    assert content.panels[0].span < 1e-3


def test_one_stream_says_nothing_about_scales(sentence: Make) -> None:
    content = read_samples(sentence(conservation=torch.tensor([1.0])))[0]
    assert (content.scales, content.totals) == ("", ())


def test_what_each_stream_holds_is_shown_if_scores_add_up(question: Make) -> None:
    sinks = {"biases": torch.tensor([0.25])}
    held = read_samples(question(conservation=torch.tensor([1.0]), sinks=sinks))[0].totals
    assert [name for name, _ in held] == ["text", "image", "biases"]
    assert held[0][1] == pytest.approx(1.8)
    assert [name for name, _ in read_samples(question(sinks=sinks))[0].totals] == [
        "tokens",
        "biases",
    ]


def test_special_tokens_do_not_make_the_scale_of_a_matrix() -> None:
    rows, columns = (
        (Item("a"), Item("</s>", special=True)),
        (Item("[CLS]", special=True), Item("b")),
    )
    made = RelevanceMatrix("x", "y", rows, columns, torch.tensor([[9.0, 1.0], [5.0, -4.0]]))
    assert made.span == 1.0
    assert made.signed
    assert made.shares.tolist() == [[1.0, 1.0], [1.0, -1.0]]


def test_a_matrix_is_cut_to_its_strongest_columns_in_order() -> None:
    names = tuple(Item(c, special=c == "d") for c in "abcd")
    values = torch.tensor([[1.0, 5.0, -7.0, 99.0], [1.0, 0.0, 0.0, 0.0], [50.0, 0.0, 0.0, 0.0]])
    made = RelevanceMatrix("x", "y", names[:3], names, values).cut(2, 2)
    assert texts(made.columns) == ["b", "c"]
    assert made.values.tolist() == [[5.0, -7.0], [0.0, 0.0]]
    assert made.left_out == "the first 2 of 3 rows and the strongest 2 of 4 columns"
    assert RelevanceMatrix("x", "y", names[:3], names, values).cut(9, 9).left_out == ""


def test_streams_may_be_empty_of_numbers() -> None:
    scores, mask = torch.full((1, 2), float("nan")), torch.ones(1, 2, dtype=torch.bool)
    streams = {"a": Stream("a", scores, mask), "b": Stream("b", scores, mask)}
    one = torch.ones(1)
    maps = {("a", "b"): torch.full((1, 2, 2), float("nan"))}
    made = Attribution("gae", streams, "a", one, one, ("x",), maps=maps)
    (only,) = read_samples(made)[0].matrices
    assert only.span == 1.0
    assert only.shares.tolist() == [[0.0, 0.0], [0.0, 0.0]]
