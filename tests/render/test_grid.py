"""Grids: rows and columns find their names, and scales are shared by whom they should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from whyformer.attribution import Attribution, Stream
from whyformer.errors import InputError, OptionError
from whyformer.render.panels import ImagePanel, TextPanel
from whyformer.render.picture.grid import figure_grid

Make = Callable[..., Attribution]


def one(scores: list[float], method: str = "gae", label: str = "cat", **more: Any) -> Attribution:
    """An attribution of one text of as many words as scores."""
    row = torch.tensor([scores])
    words = (tuple(f"w{i}" for i in range(len(scores))),)
    stream = Stream("text", row, torch.ones_like(row).bool(), words, (tuple(range(len(scores))),))
    scalar = torch.ones(1)
    return Attribution(method, {"text": stream}, "text", scalar.long(), scalar, (label,), **more)


def batch(method: str, *rows: list[float], labels: tuple[str, ...]) -> Attribution:
    scores = torch.tensor(rows)
    count = len(rows)
    words = tuple(f"w{i}" for i in range(scores.shape[1]))
    stream = Stream("text", scores, torch.ones_like(scores).bool(), (words,) * count)
    scalar = torch.ones(count)
    return Attribution(method, {"text": stream}, "text", scalar.long(), scalar, labels)


def spans(made: Any, scale: str = "method") -> list[list[float]]:
    return [[cell.panels[0].span for cell in row] for row in figure_grid(made, scale=scale).cells]


# -- layout ----------------------------------------------------------------------------------


def test_rows_of_cells_batches_and_single_ones() -> None:
    a, b = one([1.0]), one([2.0])
    both = batch("gae", [1.0], [2.0], labels=("cat", "dog"))
    for cells, shape in (
        (a, (1, 1)),
        ([a, b], (1, 2)),
        ([[a], [b]], (2, 1)),
        ([[a, b], [b, a]], (2, 2)),
        (both, (1, 2)),
        ([both, both, both], (3, 2)),
        ([[a, b], both], (2, 2)),
        ([[a, None], [None, b]], (2, 2)),
    ):
        made = figure_grid(cells)
        assert (len(made.cells), len(made.cells[0])) == shape
        assert (len(made.rows), len(made.columns)) == shape


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([], "nothing to draw"),
        ([[]], "nothing to draw"),
        ([[None]], "nothing to draw"),
        ([[1]], "attribution, and one is int"),
        ([["a"]], "attribution, and one is str"),
        (1, "attribution, and one is int"),
        ("why", "attribution, and one is str"),
    ],
)
def test_what_is_no_grid_is_refused(cells: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        figure_grid(cells)


def test_rows_of_different_lengths_are_refused() -> None:
    a = one([1.0])
    with pytest.raises(InputError, match=r"different lengths: \[2, 1\] cells\. .* None for blank"):
        figure_grid([[a, a], [a]])


# -- titles ----------------------------------------------------------------------------------


def test_methods_by_inputs_are_named_by_what_they_share() -> None:
    made = figure_grid(
        [batch(m, [1.0], [2.0], labels=("cat", "dog")) for m in ("gae", "rollout", "lrp_ah_ln")]
    )
    assert made.rows == ("gae", "rollout", "lrp_ah_ln")
    assert made.columns == ("why cat?", "why dog?")


def test_classes_by_inputs_are_named_by_their_labels() -> None:
    made = figure_grid([batch("gae", [1.0], [2.0], labels=(c, c)) for c in ("cat", "dog")])
    assert made.rows == ("why cat?", "why dog?")
    assert made.columns == ("", "")


def test_options_tell_apart_what_one_method_did() -> None:
    made = figure_grid([one([1.0], options={"start_layer": n}) for n in (0, 1)])
    assert made.columns == ("start_layer=0", "start_layer=1")
    mixed = figure_grid([one([1.0], m, options={m: 1}) for m in ("gae", "rollout")])
    assert mixed.columns == ("gae", "rollout")


def test_a_single_cell_says_what_it_is() -> None:
    assert figure_grid(one([1.0])).columns == ("gae, why cat?",)


def test_titles_can_be_given_and_are_made_harmless() -> None:
    a = one([1.0])
    made = figure_grid([[a], [a]], rows=["first", "\x1b[31m"], columns=[""])
    assert made.rows[0] == "first"
    assert "\x1b" not in made.rows[1]
    assert made.columns == ("",)
    for wrong in (["only one"], "ab"):
        with pytest.raises(InputError, match="the figure has 2 rows"):
            figure_grid([[a], [a]], rows=wrong)


# -- scales ----------------------------------------------------------------------------------


def test_cells_of_one_method_share_a_scale() -> None:
    rows = [
        batch("gae", [1.0, 0.0], [4.0, 0.0], labels=("a", "b")),
        batch("lrp_ah_ln", [-0.5, 0.0], [0.25, 0.0], labels=("a", "b")),
    ]
    assert spans(rows) == [[4, 4], [0.5, 0.5]]
    assert spans(rows, "figure") == [[4, 4], [4, 4]]
    assert spans(rows, "cell") == [[1, 4], [0.5, 0.25]]
    made = figure_grid(rows)
    assert [scale.name for scale in made.scales] == ["gae", "lrp_ah_ln"]
    assert [scale.signed for scale in made.row_scales] == [False, True]
    assert made.column_scales == ()
    assert "Each method has its own colour scale" in made.caption
    assert "blue opposes" in made.caption


def test_a_scale_is_symmetric_for_all_of_its_cells_or_for_none() -> None:
    panels = [cell.panels[0] for cell in figure_grid([one([1.0]), one([-0.1])]).cells[0]]
    assert [panel.signed for panel in panels] == [True, True]
    assert [panel.share(panel.words[0]) for panel in panels] == pytest.approx([1, -0.1])  # type: ignore[union-attr, arg-type]


def test_one_scale_is_described_as_one() -> None:
    made = figure_grid([one([1.0]), one([2.0], label="dog")])
    assert len(made.scales) == 1
    assert made.row_scales == made.column_scales == ()
    assert "All cells share one colour scale: full colour at 2.00." in made.caption
    assert "blue" not in made.caption
    assert "Full colour at 1.00." in figure_grid(one([1.0])).caption


def test_a_method_with_other_options_or_models_has_another_scale() -> None:
    for other in ({"options": {"at": "states"}}, {"provenance": {"model": "b"}}):
        assert spans([one([1.0]), one([2.0], **other)]) == [[1, 2]]


def test_a_cell_without_scores_is_no_measure() -> None:
    assert spans([one([0.0]), one([0.125])]) == [[0.125, 0.125]]


def test_an_unknown_way_of_sharing_is_refused() -> None:
    with pytest.raises(OptionError, match=r"unknown scale 'row'\. Pass one of method, cell"):
        figure_grid(one([1.0]), scale="row")


def test_streams_that_do_not_add_up_have_their_own(question: Make) -> None:
    apart = figure_grid([question(), question()])
    assert [scale.name for scale in apart.scales] == ["text", "image"]
    assert "Each stream has its own colour scale" in apart.caption
    together = figure_grid(
        [question(conservation=torch.ones(1)), question(conservation=torch.ones(1))]
    )
    assert len(together.scales) == 1


def test_words_beyond_the_scale_are_mentioned(sentence: Make) -> None:
    assert "dashed" in figure_grid(sentence()).caption
    assert "dashed" not in figure_grid(one([1.0])).caption


# -- inputs ----------------------------------------------------------------------------------


def test_images_are_found_where_they_are_shared(image: Make) -> None:
    first = image(torch.eye(2))
    stream = first.streams["image"]
    assert stream.image is not None
    second = replace(first, streams={"image": replace(stream, image=1 - stream.image)})
    by_column, by_row = (
        figure_grid([[first, second]] * 2),
        figure_grid([[first, first], [second, second]]),
    )
    assert (len(by_column.row_images), len(by_column.column_images)) == (0, 2)
    assert (len(by_row.row_images), len(by_row.column_images)) == (2, 0)
    assert isinstance(by_row.row_images[0], ImagePanel)
    assert isinstance(figure_grid(one([1.0])).cells[0][0].panels[0], TextPanel)
    bare = image(torch.eye(2), size=None)
    assert figure_grid(bare).row_images == ()
