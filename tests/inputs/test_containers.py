"""Inputs as other libraries hand them out: columns, arrays, and mappings of pipelines."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import whyformer as wf
from whyformer.batching.series import is_series
from whyformer.errors import InputError
from whyformer.inputs.containers import plain_inputs

TEXTS = ["a gripping film", "a dull film"]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: pytest.importorskip("pandas").Series(TEXTS), id="series"),
        pytest.param(lambda: pytest.importorskip("pandas").Series(TEXTS, [7, 3]), id="odd index"),
        pytest.param(lambda: pytest.importorskip("pandas").Index(TEXTS), id="index"),
        pytest.param(lambda: numpy.array(TEXTS), id="numpy"),
        pytest.param(lambda: numpy.array(TEXTS, dtype=object), id="numpy objects"),
        pytest.param(
            lambda: pytest.importorskip("datasets").Dataset.from_dict({"text": TEXTS})["text"],
            id="datasets",
        ),
        pytest.param(lambda: {"text": TEXTS}, id="mapping"),
        pytest.param(lambda: [{"text": text} for text in TEXTS], id="mappings"),
    ],
)
def test_columns_of_texts_are_lists(make: Any) -> None:
    found = plain_inputs(make())
    assert found == TEXTS
    assert [type(text) for text in found] == [str, str]


def test_a_column_is_explained_as_its_list() -> None:
    pandas = pytest.importorskip("pandas")
    assert wf.explain(pandas.Series(TEXTS)).scores.equal(wf.explain(TEXTS).scores)


def test_a_streamed_column_is_a_series() -> None:
    datasets = pytest.importorskip("datasets")
    streamed = datasets.Dataset.from_dict({"text": TEXTS}).to_iterable_dataset()["text"]
    assert is_series(streamed)
    assert [one.labels[0] for one in wf.explain(streamed)] == ["positive", "negative"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"question": "who?", "context": "Anna."}, ("who?", "Anna.")),
        ({"context": "Anna.", "question": "who?"}, ("who?", "Anna.")),
        ({"text": "a", "text_pair": "b"}, ("a", "b")),
        ({"question": ["a", "b"], "context": ["c", "d"]}, [("a", "c"), ("b", "d")]),
        ({"question": "a", "context": ["c", "d"]}, [("a", "c"), ("a", "d")]),
        ([{"text": "a", "text_pair": "b"}], [("a", "b")]),
        ({"question": "what?", "image": "x.png"}, {"text": "what?", "image": "x.png"}),
    ],
)
def test_mappings_of_pipelines_are_pairs(given: Any, expected: Any) -> None:
    assert plain_inputs(given) == expected


def test_other_mappings_and_arrays_stay() -> None:
    pixels, ids = numpy.zeros((2, 3)), {"input_ids": numpy.zeros((1, 2))}
    assert plain_inputs(pixels) is pixels
    assert plain_inputs(ids) is ids
    assert plain_inputs(chat := [{"role": "user", "content": "x"}]) == chat


def test_wrong_containers_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"columns 'text'\. Pass one column, such as"):
        plain_inputs(pandas.DataFrame({"text": TEXTS}))
    with pytest.raises(InputError, match="there are 2 of 'question' and 1 of 'context'"):
        plain_inputs({"question": ["a", "b"], "context": ["c"]})
    with pytest.raises(InputError, match="'text' and 'text_pair' are int and str"):
        plain_inputs({"text": 1, "text_pair": "b"})
    with pytest.raises(InputError, match="the text at index 1 is empty"):
        wf.explain(pandas.Series(["a", ""]))
    with pytest.raises(InputError, match="element 1 of the inputs is of type float"):
        wf.explain(pandas.Series(["a", float("nan")], dtype=object))
