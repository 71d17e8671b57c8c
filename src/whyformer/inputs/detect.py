"""Detect the kind of the inputs (text, chat, image, ...) and list their samples."""

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
    "a string, a list of strings, a (text, text) pair, a list of chat messages, a PIL image, an"
    " image path, a list of them, a (text, image) pair, a tensor, or a mapping of what the model's"
    " forward takes"
)
TEXT_AND_IMAGE = "text+image"

Text = str | tuple[str, str]


def kind_of(inputs: Any, stream: str | None = None) -> str:
    """Return "text", "chat", "image", "text+image", "tensor" or "mapping".

    Args:
        inputs: What the user passed to `explain`.
        stream: What the model reads. A string is then a text or an image path accordingly. If
            None, a string with the suffix of an image file is a path.

    Raises:
        InputError: The inputs are empty, of several kinds, or of a type that cannot be read.
    """
    if isinstance(inputs, Tensor | numpy.ndarray):
        return "tensor"
    if isinstance(inputs, Mapping):
        return TEXT_AND_IMAGE if stream is None and _has_both_keys(inputs) else "mapping"
    if is_chats(inputs):
        return "chat"
    samples = samples_of(inputs, stream)
    if not samples:
        raise InputError(
            f"the inputs are an empty {type(inputs).__name__}: there is nothing to explain",
            argument="inputs",
            remedy=f"Pass {ACCEPTED}",
        )
    kinds = {_kind_of_one(sample, index, stream) for index, sample in enumerate(samples)}
    if len(kinds) > 1:
        raise InputError(
            f"the inputs mix {' and '.join(sorted(kinds))} in one list",
            argument="inputs",
            remedy="Explain them in separate calls. For a model of text and images, pass"
            " (text, image) tuples, or a mapping of what the model's forward takes",
        )
    return kinds.pop()


def samples_of(inputs: Any, stream: str | None = None) -> list[Any]:
    """The samples in the inputs; a tuple of two texts, or of a text and an image, is one sample.

    A tuple of two image paths is two samples.
    """
    if not isinstance(inputs, list | tuple):
        return [inputs]
    if isinstance(inputs, tuple) and is_text_image_pair(inputs) and stream != "image":
        return [inputs]
    if isinstance(inputs, list) or not is_text_pair(inputs) or stream == "image":
        return [*inputs]
    are_paths = stream != "text" and all(map(_has_image_suffix, inputs))
    return [*inputs] if are_paths else [inputs]


def is_text_pair(item: Any) -> bool:
    """Whether the item is a pair of strings."""
    two = isinstance(item, tuple | list) and len(item) == 2
    return two and all(isinstance(text, str) for text in item)


def is_text_image_pair(item: Any) -> bool:
    """Whether the item is a text with an image, as a pair in any order or as a mapping."""
    if isinstance(item, Mapping):
        return _has_both_keys(item)
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    return sorted(_kind_without_model(part) for part in item) == ["image", "text"]


def is_image(item: Any) -> bool:
    """Whether the item is a PIL image, checked without importing PIL."""
    return hasattr(item, "convert") and hasattr(item, "mode") and hasattr(item, "size")


def is_chat(item: Any) -> bool:
    """Whether the item is a list of messages; they may be malformed."""
    return (
        isinstance(item, list | tuple)
        and bool(item)
        and all(isinstance(one, Mapping) and ("role" in one or "content" in one) for one in item)
    )


def is_chats(inputs: Any) -> bool:
    """Whether the inputs are a chat, or a list of chats."""
    several = isinstance(inputs, list | tuple) and bool(inputs) and all(map(is_chat, inputs))
    return several or is_chat(inputs)


def texts_of(inputs: Any) -> list[Text]:
    """The texts or text pairs in the inputs; raise InputError if one is blank or not UTF-8."""
    texts: list[Text] = [tuple(i) if is_text_pair(i) else i for i in samples_of(inputs, "text")]
    if len({isinstance(text, str) for text in texts}) > 1:
        raise InputError(
            "the inputs mix single texts and (text, text) pairs in one list",
            argument="inputs",
            remedy="Explain them in separate calls",
        )
    for index, text in enumerate(texts):
        where = _index_phrase(index, texts)
        for part in (text,) if isinstance(text, str) else text:
            _check_characters(part, where)
            if not part.strip():
                blank = "empty" if not part else f"only white space ({part[:20]!r})"
                raise InputError(
                    f"the text{where} is {blank}: there is nothing to explain",
                    argument="inputs",
                    remedy="Pass at least one word",
                )
    return texts


def _check_characters(text: str, where: str) -> None:
    """Raise InputError if the text has a lone surrogate, which no tokenizer can read."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text{where} has {error.object[error.start : error.end]!r} at position"
            f" {error.start}, which is no character of UTF-8",
            argument="inputs",
            remedy="Remove or replace it",
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
            f"the inputs pair text with an image and the model reads {stream} alone",
            argument="inputs",
            remedy=f"Pass {stream}, or another model=",
        )
    if is_text_pair(item):
        return "text"
    where = f"element {index} of the inputs is" if index else "the inputs are"
    is_array = isinstance(item, Tensor | numpy.ndarray)
    raise InputError(
        f"{where} of type {type(item).__name__}, which cannot be read",
        argument="inputs",
        remedy="Stack the tensors into one" if is_array else f"Pass {ACCEPTED}",
    )


def _has_both_keys(inputs: Mapping[Any, Any]) -> bool:
    """Whether a mapping has raw texts and images, not the tensors that forward takes."""
    arrays = any(isinstance(value, Tensor | numpy.ndarray) for value in inputs.values())
    return set(inputs) == {"text", "image"} and not arrays


def _kind_without_model(item: Any) -> str:
    """The kind of one item if no model is known: "text", "image", or "" for neither."""
    if is_image(item) or isinstance(item, Path):
        return "image"
    if not isinstance(item, str):
        return ""
    return "image" if _has_image_suffix(item) else "text"


def _has_image_suffix(text: str) -> bool:
    return "\n" not in text and Path(text).suffix.lower() in IMAGE_SUFFIXES


def _index_phrase(index: int, texts: Sequence[Text]) -> str:
    return f" at index {index}" if len(texts) > 1 else ""
