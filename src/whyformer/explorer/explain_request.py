"""The browser's request, read from JSON; unknown names and large inputs are refused."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from whyformer.errors import InputError
from whyformer.explorer.catalogue import Catalogue, ExampleInput, OfferedModel
from whyformer.explorer.image_upload import UploadedImage, check_image
from whyformer.explorer.limits import Limits, TooMuchError
from whyformer.inputs.images import open_image
from whyformer.methods import methods
from whyformer.targets.specs import at_query, parse_target

FIELDS = frozenset(
    {"model", "methods", "text", "second", "target", "query", "example", "image"}
    | {"answer", "max_new_tokens", "sample", "curves"}
)
RELOAD = "Reload the page"


@dataclass(frozen=True)
class ExplainRequest:
    """A model, methods, inputs and target, as `explain_each` takes them."""

    entry: OfferedModel
    methods: tuple[str, ...]
    inputs: Any
    target: Any = None
    max_new_tokens: int | None = None  # None: as the model's generation config says
    curves: bool = True  # whether deletion curves are measured

    @property
    def has_upload(self) -> bool:
        """Whether the user sent an image."""
        return self.image is not None

    @property
    def image(self) -> UploadedImage | None:
        """The image that the user sent."""
        parts = self.inputs.values() if isinstance(self.inputs, dict) else [self.inputs]
        return next((part for part in parts if isinstance(part, UploadedImage)), None)

    def decoded(self) -> ExplainRequest:
        """Return the request with its image decoded."""
        if self.image is None:
            return self
        inputs = self.inputs
        if isinstance(inputs, dict):
            return replace(self, inputs={**inputs, "image": self.image.decode()})
        return replace(self, inputs=self.image.decode())


def read_request(body: bytes, offered: Catalogue, limits: Limits) -> ExplainRequest:
    """Return the request; raise InputError if a field is wrong."""
    fields = _parse_object(body)
    entry = offered[fields.get("model")]
    names = _methods(fields.get("methods"), limits)
    target = _target(_text(fields, "target", limits.target))
    query = _query(fields.get("query"), entry)
    if entry.detects and query is None and target is not None:
        raise InputError(
            f"{entry.name} predicts a class for each object, so a target needs an object",
            remedy="Enter a number in the field Object",
        )
    answer = _answer(_text(fields, "answer", limits.characters), target, entry)
    number = fields.get("example")
    example = ExampleInput() if number is None else offered.example(entry.name, number)
    text, second = (_text(fields, name, limits.characters) for name in ("text", "second"))
    parts: dict[str, Any] = {}
    if "text" in entry.reads:
        parts["text"] = _text_input(text, second, entry)
    if "image" in entry.reads:
        image = example.image
        if fields.get("sample") is not None:
            image = offered.samples.image(fields["sample"])
        parts["image"] = _image(fields.get("image"), image, entry, limits)
    return ExplainRequest(
        entry,
        names,
        parts if len(parts) > 1 else next(iter(parts.values())),
        at_query(query, target) if answer is None else answer,
        _new_tokens(fields.get("max_new_tokens"), answer, entry, limits),
        fields.get("curves", True) is not False,
    )


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is not JSON", remedy=RELOAD) from error
    if not isinstance(fields, dict) or not fields.keys() <= FIELDS:
        raise InputError(f"the request may only have {', '.join(sorted(FIELDS))}", remedy=RELOAD)
    return fields


def _methods(names: Any, limits: Limits) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("the methods are not a list of names", remedy=RELOAD)
    chosen = tuple(dict.fromkeys(names))
    if not chosen:
        raise InputError("no method is chosen", remedy="Choose at least one")
    if len(chosen) > limits.methods:
        raise TooMuchError(
            f"{len(chosen)} methods are chosen, more than the limit of {limits.methods}",
            remedy="Choose fewer",
        )
    for name in chosen:
        methods[name[:80]]  # raises if unknown
    return chosen


def _text(fields: Mapping[str, Any], name: str, most: int) -> str:
    text = fields.get(name) or ""
    if not isinstance(text, str):
        raise InputError(f"the field {name!r} must be a text", remedy=RELOAD)
    if len(text) > most:
        what = {"second": "second text"}.get(name, name)
        raise TooMuchError(
            f"the {what} has {len(text)} characters, more than the limit of {most}",
            remedy="Shorten it",
        )
    return text


def _text_input(text: str, second: str, entry: OfferedModel) -> str | tuple[str, str]:
    if not text.strip():
        raise InputError(f"{entry.name} needs a text", remedy="Type one, or choose an example")
    if not second.strip():
        return text
    if "image" in entry.reads:
        raise InputError(
            f"{entry.name} reads only one text with an image", remedy="Clear the second text"
        )
    return text, second


def _image(encoded: Any, known: Any, entry: OfferedModel, limits: Limits) -> Any:
    if encoded is None and known is not None:
        return open_image(known, "RGB")
    if encoded is None:
        raise InputError(f"{entry.name} needs an image", remedy="Drop one, or choose an example")
    if isinstance(encoded, str) and len(encoded) > limits.body:
        raise TooMuchError("the image file is too large", remedy="Make it smaller")
    try:
        content = base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise InputError("the image arrived incomplete", remedy="Choose it again") from error
    return check_image(content, limits)


def _target(text: str) -> Any:
    """Return None, a class index, a label or a contrast."""
    if not text.strip():
        return None
    return parse_target(text)


def _answer(text: str, target: Any, entry: OfferedModel) -> str | None:
    """Return the given answer with its leading spaces, or None if the model should write one."""
    if not text.strip():
        return None
    if not entry.writes:
        raise InputError(f"{entry.name} writes no text", remedy="Leave the field Answer empty")
    if target is not None:
        raise InputError(
            "an answer and a target are given, and only one of them can be explained",
            remedy="Clear one of them",
        )
    return text


def _new_tokens(count: Any, answer: str | None, entry: OfferedModel, limits: Limits) -> int | None:
    """Return how many tokens the model may write, or None for its own setting."""
    if count is None:
        return None
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(
            f"the number of new tokens {str(count)[:20]!r} is not a number",
            remedy="Enter a whole number from 1",
        )
    if count > limits.new_tokens:
        raise TooMuchError(
            f"{count} new tokens are more than the limit of {limits.new_tokens}",
            remedy="Enter a smaller number",
        )
    if not entry.writes:
        raise InputError(
            f"{entry.name} writes no text", remedy="Leave the field Longest answer empty"
        )
    if answer is not None:
        raise InputError(
            "a given answer has a length already",
            remedy="Clear the field Answer or the field Longest answer",
        )
    return count


def _query(number: Any, entry: OfferedModel) -> int | None:
    """Return the object query of a detector, or None for the most confident one."""
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(
            f"the object {str(number)[:20]!r} is not a number", remedy="Enter a whole number from 0"
        )
    if not entry.detects:
        raise InputError(
            f"{entry.name} does not detect objects", remedy="Leave the field Object empty"
        )
    return number
