"""Containers that other libraries hand out, as the lists and pairs that `explain` reads.

Columns of pandas and `datasets` and arrays of strings become lists. The mappings that
`transformers` pipelines take, such as {"question": ..., "context": ...}, become pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from whyformer.errors import InputError

# Keys of the mappings that pipelines take, in the order in which the model reads the two texts.
PAIRS = (("question", "context"), ("text", "text_pair"), ("premise", "hypothesis"))
SINGLE = "text"
QUESTION, IMAGE = "question", "image"


def plain_inputs(inputs: Any) -> Any:
    """Return the inputs with foreign containers replaced; others are returned as they are."""
    if _is_frame(inputs):
        columns = ", ".join(map(repr, list(inputs.columns)[:5]))
        raise InputError(
            f"the inputs are a table with the columns {columns}",
            argument="inputs",
            remedy="Pass one column, such as frame['text'], or a list of (text, text) pairs",
        )
    if isinstance(inputs, Mapping):
        return plain_sample(inputs)
    if _is_column(inputs) or _is_text_array(inputs):
        inputs = [_as_python(one) for one in inputs]
    if isinstance(inputs, list) and any(isinstance(one, Mapping) for one in inputs):
        return [plain_sample(one) for one in inputs]
    return inputs


def plain_sample(sample: Any) -> Any:
    """Return one sample: a mapping of a pipeline's inputs as a pair, or as text and image."""
    if not isinstance(sample, Mapping):
        return sample
    keys = set(sample)
    if keys == {QUESTION, IMAGE}:
        return {"text": sample[QUESTION], "image": sample[IMAGE]}
    for first, second in PAIRS:
        if keys == {first, second}:
            return _pairs(first, plain_inputs(sample[first]), second, plain_inputs(sample[second]))
    if keys == {SINGLE} and _is_text(texts := plain_inputs(sample[SINGLE])):
        return texts
    return sample


def _pairs(first: str, one: Any, second: str, other: Any) -> Any:
    """A pair of texts, or a list of pairs if both are lists."""
    if isinstance(one, str) and isinstance(other, str):
        return one, other
    if not (_is_text(one) and _is_text(other)):
        raise InputError(
            f"{first!r} and {second!r} are {type(one).__name__} and {type(other).__name__}",
            argument="inputs",
            remedy="Pass two texts, or two lists of texts with the same length",
        )
    # One question may be asked of many contexts, and many of one.
    firsts = [one] * len(other) if isinstance(one, str) else list(one)
    seconds = [other] * len(one) if isinstance(other, str) else list(other)
    if len(firsts) != len(seconds):
        raise InputError(
            f"there are {len(firsts)} of {first!r} and {len(seconds)} of {second!r}",
            argument="inputs",
            remedy="Pass as many of one as of the other",
        )
    return list(zip(firsts, seconds, strict=True))


def _is_text(value: Any) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, Sequence) and all(isinstance(one, str) for one in value)


def _is_frame(value: Any) -> bool:
    """Whether this is a table of pandas or polars, without importing them."""
    named = type(value).__name__ == "DataFrame"
    return named and hasattr(value, "columns")


def _is_column(value: Any) -> bool:
    """Whether this is a column of pandas, polars or `datasets`, without importing them."""
    home = type(value).__module__.partition(".")[0]
    name = type(value).__name__
    return (home, name) in {
        ("pandas", "Series"),
        ("pandas", "Index"),
        ("polars", "Series"),
        ("datasets", "Column"),
    }


def _is_text_array(value: Any) -> bool:
    """Whether this is a numpy array of strings, of fixed width, of variable width or as objects."""
    return isinstance(value, numpy.ndarray) and value.ndim == 1 and value.dtype.kind in "UTO"


def _as_python(value: Any) -> Any:
    return str(value) if isinstance(value, numpy.str_) else value
