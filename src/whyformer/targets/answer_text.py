"""Texts that a user expects a model to write, as token ids; refused if it cannot write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from whyformer.errors import InputError, TargetError
from whyformer.inputs.tokenizer_scope import tokenizer_scope
from whyformer.inputs.words import PLAIN, WORDPIECE, scheme_of, token_texts
from whyformer.targets.specs import Answer

SHOWN = 60  # characters of an answer in an error


def encode_answers(
    texts: Sequence[str], prompts: Sequence[Sequence[int]], tokenizer: Any, module: nn.Module
) -> Answer:
    """Return the token ids of answers that follow prompts.

    Spaces count: after "The capital is", " Berlin" and "Berlin" are different answers.

    Args:
        texts: The answers.
        prompts: The token ids of their prompts.
        tokenizer: The model's tokenizer.
        module: The model.

    Raises:
        TargetError: There is no tokenizer, or it cannot write an answer.
    """
    if tokenizer is None:
        raise TargetError(
            f"the target is text and {type(module).__name__} comes without a tokenizer",
            argument="processor",
            remedy="Pass processor=, or the token ids of the answer as target",
        )
    rows = []
    for text, prompt in zip(texts, prompts, strict=True):
        _check_characters(text)
        with tokenizer_scope(tokenizer):
            rows.append(_encode(text, list(prompt), tokenizer))
    return Answer(tuple(map(tuple, rows)))


def check_written(text: str, row: Sequence[int], tokenizer: Any) -> None:
    """Raise TargetError if token ids of an answer have an unknown token, or are another text.

    For answers without a prompt before them: spaces do not count.
    """
    _refuse_unknown(text, row, tokenizer)
    written = _decode(row, tokenizer, skip_special_tokens=True)
    if not _is_same(written, text, spaces=False, case=scheme_of(tokenizer) != WORDPIECE):
        raise _cannot_write(text, written)


def _encode(text: str, prompt: list[int], tokenizer: Any) -> list[int]:
    """The ids after the prompt whose text is the answer's; raise TargetError if there are none."""
    spaces = scheme_of(tokenizer) not in (WORDPIECE, PLAIN)  # whose tokens do not hold spaces
    before = _decode(prompt, tokenizer)
    written = None
    for row in _candidates(text, prompt, before, tokenizer):
        if not row:
            continue
        _refuse_unknown(text, row, tokenizer)
        whole = _decode(prompt + row, tokenizer)
        if whole.startswith(before) and _is_same(whole[len(before) :], text, spaces, case=spaces):
            return row
        written = written or _decode(row, tokenizer)
    raise _cannot_write(text, written or "")


def _candidates(text: str, prompt: list[int], before: str, tokenizer: Any) -> Iterator[list[int]]:
    """Ids that may be the answer: encoded after the prompt, alone, and after a line break.

    SentencePiece writes a space before the first word of a text, so an answer alone may be read as
    another one.
    """

    def encode(one: str) -> list[int]:
        ids: list[int] = list(tokenizer.encode(one, add_special_tokens=False))
        return ids

    joined = encode(before + text)
    if joined[: len(prompt)] == prompt:
        yield joined[len(prompt) :]
    yield encode(text)
    line = encode("\n")
    joined = encode("\n" + text)
    if line and joined[: len(line)] == line:
        yield joined[len(line) :]


def _decode(row: Sequence[int], tokenizer: Any, skip_special_tokens: bool = False) -> str:
    return str(
        tokenizer.decode(
            list(row),
            skip_special_tokens=skip_special_tokens,
            clean_up_tokenization_spaces=False,
        )
    )


def _is_same(written: str, text: str, spaces: bool, case: bool) -> bool:
    if not spaces:
        written, text = "".join(written.split()), "".join(text.split())
    return written == text if case else written.casefold() == text.casefold()


def _refuse_unknown(text: str, row: Sequence[int], tokenizer: Any) -> None:
    """Raise TargetError if a token is the unknown one, unless the text spells it out."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    name = str(getattr(tokenizer, "unk_token", None))
    if unknown in row and name not in text:
        raise TargetError(
            f"the tokenizer cannot write the target {_brief(text)}: it reads it as"
            f" {' '.join(token_texts(row, tokenizer))}",
            argument="target",
            remedy="Pass a text of words that the model's vocabulary has, or token ids",
        )


def _cannot_write(text: str, written: str) -> TargetError:
    return TargetError(
        f"the tokenizer cannot write the target {_brief(text)}: its tokens would be"
        f" {_brief(written)}",
        argument="target",
        remedy="Pass a text that the model can write, or token ids",
    )


def _check_characters(text: str) -> None:
    """Raise TargetError if the answer is empty or has a lone surrogate."""
    if not text:
        raise TargetError(
            "the target is an empty text: there is nothing to explain",
            argument="target",
            remedy="Pass at least one character, or target=None for what the model writes",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the target has {error.object[error.start : error.end]!r} at position {error.start},"
            " which is no character of UTF-8",
            argument="target",
            remedy="Remove or replace it",
        ) from error


def _brief(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 3] + "...")
