"""What the user passed: text, images, a tensor or a mapping, told apart before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
from torch import Tensor

from whyformer.errors import InputError

IMAGE_SUFFIXES = (
    ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".pgm", ".pbm", ".tif", ".tiff", ".webp",
)  # fmt: skip
ACCEPTED = (
    "a string, a list of strings, a (text, text) pair, a PIL image, an image path, a list of them,"
    " a (text, image) pair, a tensor, or a mapping of what the model's forward takes"
)
TEXT_AND_IMAGE = "text+image"

Text = str | tuple[str, str]


def kind_of(inputs: Any, stream: str | None = None) -> str:
    """One of "text", "image", "text+image", "tensor", "mapping"; a string is what `stream` needs.

    Where the stream is not known, a string that ends like an image file is a path, and text may
    come with an image. A model of one stream is refused the two together.
    """
    if isinstance(inputs, Tensor | numpy.ndarray):
        return "tensor"
    if isinstance(inputs, Mapping):
        return TEXT_AND_IMAGE if stream is None and _names_both(inputs) else "mapping"
    items = samples_of(inputs, stream)
    if not items:
        raise InputError(
            f"the inputs are an empty {type(inputs).__name__}: there is nothing to explain; pass"
            f" {ACCEPTED}"
        )
    kinds = {_kind_of_one(item, index, stream) for index, item in enumerate(items)}
    if len(kinds) > 1:
        raise InputError(
            f"the inputs mix {' and '.join(sorted(kinds))} in one list; explain them in separate"
            " calls, pass (text, image) tuples where they belong together, or a mapping of what"
            " the model's forward takes"
        )
    return kinds.pop()


def samples_of(inputs: Any, stream: str | None = None) -> list[Any]:
    """The samples of a batch; a pair of strings, or of a text and an image, is one of them.

    Two image paths are two samples.
    """
    if not isinstance(inputs, list | tuple):
        return [inputs]
    if isinstance(inputs, tuple) and is_text_image_pair(inputs) and stream != "image":
        return [inputs]
    if isinstance(inputs, list) or not is_text_pair(inputs) or stream == "image":
        return [*inputs]
    paths = stream != "text" and all(map(_ends_like_image, inputs))
    return [*inputs] if paths else [inputs]


def is_text_pair(item: Any) -> bool:
    """Whether this is two strings that belong together."""
    two = isinstance(item, tuple | list) and len(item) == 2
    return two and all(isinstance(text, str) for text in item)


def is_text_image_pair(item: Any) -> bool:
    """Whether this is a text and an image that belong together, in either order or by name."""
    if isinstance(item, Mapping):
        return _names_both(item)
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    return sorted(_kind_without_model(part) for part in item) == ["image", "text"]


def is_image(item: Any) -> bool:
    """Whether this is a PIL image, told without importing PIL."""
    return hasattr(item, "convert") and hasattr(item, "mode") and hasattr(item, "size")


def texts_of(inputs: Any) -> list[Text]:
    """One string or one pair of strings per sample; every one says something."""
    texts: list[Text] = [tuple(i) if is_text_pair(i) else i for i in samples_of(inputs, "text")]
    if len({isinstance(text, str) for text in texts}) > 1:
        raise InputError(
            "the inputs mix single texts and (text, text) pairs in one list; explain them in"
            " separate calls"
        )
    for index, text in enumerate(texts):
        for part in (text,) if isinstance(text, str) else text:
            _check_characters(part, _index_phrase(index, texts))
            if not part.strip():
                raise InputError(
                    f"the text{_index_phrase(index, texts)} is {_describe_blank(part)}: there is nothing to"
                    " explain; pass at least one word"
                )
    return texts


def _check_characters(text: str, which: str) -> None:
    """Nothing; raises where half a character stands in a text, which no tokenizer reads."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text{which} has {error.object[error.start : error.end]!r} at position"
            f" {error.start}, which is no character of UTF-8; remove or replace it"
        ) from error


def _kind_of_one(item: Any, index: int, stream: str | None) -> str:
    if is_image(item) or isinstance(item, Path):
        return "image"
    if isinstance(item, str):
        if stream in ("text", "image"):
            return stream
        return _kind_without_model(item)
    if is_text_image_pair(item) and not (stream == "text" and is_text_pair(item)):
        if stream is None:
            return TEXT_AND_IMAGE
        raise InputError(
            f"the inputs pair text with an image and the model reads {stream} alone; pass {stream},"
            " or another model="
        )
    if is_text_pair(item):
        return "text"
    where = f"element {index} of the inputs is" if index else "the inputs are"
    array = isinstance(item, Tensor | numpy.ndarray)
    hint = "stack the tensors into one" if array else f"pass {ACCEPTED}"
    raise InputError(f"{where} of type {type(item).__name__}, which cannot be read; {hint}")


def _names_both(inputs: Mapping[Any, Any]) -> bool:
    """Whether a mapping has texts and images under those names, not yet what a forward takes."""
    arrays = any(isinstance(value, Tensor | numpy.ndarray) for value in inputs.values())
    return set(inputs) == {"text", "image"} and not arrays


def _kind_without_model(item: Any) -> str:
    """What one item is where no model says: "text", "image", or "" for neither."""
    if is_image(item) or isinstance(item, Path):
        return "image"
    if not isinstance(item, str):
        return ""
    return "image" if _ends_like_image(item) else "text"


def _ends_like_image(text: str) -> bool:
    return "\n" not in text and Path(text).suffix.lower() in IMAGE_SUFFIXES


def _index_phrase(index: int, texts: Sequence[Text]) -> str:
    return f" at index {index}" if len(texts) > 1 else ""


def _describe_blank(part: str) -> str:
    return "empty" if not part else f"only white space ({part[:20]!r})"
