"""Split the stream of a text into the text and the images and sounds at its placeholders."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from whyformer.attribution import Reason, Stream
from whyformer.inputs.soft_tokens import SoftStream, SoftTokens
from whyformer.methods import Method

ATTENDED = Reason(
    "layers",
    "note",
    "Scores of 'image' are those of the states that the language model attends to: the encoder"
    " that computed them is not explained.",
)


def soft_reason(soft: SoftTokens, method: Method, scale: str = "tokens") -> Reason:
    """Return what the scores at placeholders are, as a note."""
    names = ", ".join(f"'{one.name}'" for one in soft.streams)
    if scale == "patches":
        text = f"Scores of {names} are those of the patches that enter the image encoder."
    elif scale == "both":
        text = (
            f"Scores of {names} are those of its tokens in the language model; 'patches' are what"
            " enters the image encoder. Both show the same relevance: the sum counts it once."
        )
    elif "removal" in method.needs:
        text = f"Only tokens of the text were removed: {names} stayed whole and has no scores."
    else:
        text = (
            f"Scores of {names} are those of its tokens in the language model: the encoder that"
            " computed these tokens is not explained."
        )
    return Reason("layers", "note", text)


def split_stream(whole: Stream, soft: SoftTokens, method: Method) -> dict[str, Stream]:
    """Return the text and the other streams of a text with placeholders, by name.

    The text keeps its columns, so that they are those of `input_ids`; placeholders are masked.
    A method that removes tokens removes those of the text only: the others have no scores.
    """
    text = replace(
        whole,
        scores=_hide(whole.scores, soft),
        mask=whole.mask & ~soft.columns.to(whole.mask.device),
        errors=None if whole.errors is None else _hide(whole.errors, soft),
    )
    if "removal" in method.needs:
        return {whole.name: text}
    return {whole.name: text, **{one.name: _stream(whole, one) for one in soft.streams}}


def split_map(
    relevancy: Tensor, asking: str, answering: str, stream: str, soft: SoftTokens
) -> dict[tuple[str, str], Tensor]:
    """Return a map (batch, asking, answering) with the axes of `stream` split, by both names."""
    found = {(asking, answering): relevancy}
    for axis in (1, 2):
        split: dict[tuple[str, str], Tensor] = {}
        for pair, value in found.items():
            if pair[axis - 1] != stream:
                split[pair] = value
                continue
            split[pair] = _hide(value, soft, axis)
            for one in soft.streams:
                name = (one.name, pair[1]) if axis == 1 else (pair[0], one.name)
                split[name] = one.take_columns(value, axis)
        found = split
    return found


def _hide(values: Tensor, soft: SoftTokens, dim: int = 1) -> Tensor:
    """The values with 0 at placeholders."""
    shape = [1] * values.ndim
    shape[0], shape[dim] = soft.columns.shape
    return values.masked_fill(soft.columns.to(values.device).reshape(shape), 0)


def _stream(whole: Stream, soft: SoftStream) -> Stream:
    """The stream of one image or sound."""

    def take(values: Tensor | None) -> Tensor | None:
        return None if values is None else soft.take_columns(values)

    return Stream(
        name=soft.name,
        scores=soft.take_columns(whole.scores),
        mask=(soft.places >= 0).cpu(),
        grid=soft.grid,
        image=soft.image,
        states=take(whole.states),
        deciding=take(whole.deciding),
        errors=take(whole.errors),
    )
