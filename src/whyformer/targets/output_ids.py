"""Token ids of output texts: read from a target, trimmed, and shown as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from whyformer.errors import InputError, TargetError
from whyformer.inputs.detect import texts_of
from whyformer.inputs.tokenizer_scope import tokenizer_scope
from whyformer.inputs.words import exact_pieces, token_texts
from whyformer.models.families import Source
from whyformer.targets.answer_text import check_written
from whyformer.targets.specs import Answer

IdRows = list[list[int]]  # per sample, without padding
# Where configs name the special ids of the output; the first that is set counts.
SPECIAL_IDS = {
    "start": ("decoder_start_token_id", "bos_token_id"),
    "end": ("eos_token_id", "sep_token_id"),
    "padding": ("pad_token_id",),
}


def is_id_rows(target: Any) -> bool:
    """Whether the target is one list of token ids per sample."""
    if isinstance(target, Answer):
        return True
    if isinstance(target, Tensor) or hasattr(target, "tolist"):
        return getattr(target, "ndim", 0) == 2 and "int" in str(target.dtype)
    return (
        isinstance(target, list | tuple)
        and bool(target)
        and all(isinstance(row, list | tuple) for row in target)
        and all(type(token) is int for row in target for token in row)
    )


def is_texts(target: Any) -> bool:
    """Whether the target is one output text, or one per sample."""
    if isinstance(target, str):
        return True
    return isinstance(target, list) and bool(target) and all(isinstance(t, str) for t in target)


def id_rows(target: Any) -> IdRows:
    """The token ids in a tensor, an array or a list of lists."""
    if isinstance(target, Answer):
        target = target.rows
    rows = target.tolist() if hasattr(target, "tolist") else target
    return [list(row) for row in rows]


def encode_output(target: Any, tokenizer: Any, module: nn.Module) -> IdRows:
    """Return the token ids of output texts; raise TargetError if one cannot be written."""
    if tokenizer is None:
        raise TargetError(
            f"the target is text and {type(module).__name__} comes without a tokenizer",
            argument="processor",
            remedy="Pass processor=, or the ids of the generated tokens as target",
        )
    texts = [text for text in texts_of(target) if isinstance(text, str)]
    with tokenizer_scope(tokenizer):
        # `text_target`: translation models tokenize their output in another language.
        rows = id_rows(tokenizer(text_target=texts, truncation=False, padding=False)["input_ids"])
        for text, row in zip(texts, rows, strict=True):
            check_written(text, row, tokenizer)
    return rows


def trim_output(rows: IdRows, module: nn.Module, source: Source) -> IdRows:
    """Return the ids without the start token in front and without padding after the end."""
    start, end, pad = (special_id(module, source, role) for role in SPECIAL_IDS)
    return [cut_after_end(row[1:] if row[:1] == [start] else row, end, pad) for row in rows]


def cut_after_end(row: Sequence[int], end: Any, pad: int | None) -> list[int]:
    """Return the ids up to the first end token, without trailing padding.

    A model may have several end tokens: `end` is an id, a list of ids, or None.
    """
    ends = set(end) if isinstance(end, list | tuple) else {end}
    kept = list(row)
    first = next((place for place, token in enumerate(kept) if token in ends), None)
    if first is not None:
        kept = kept[: first + 1]
    while kept and kept[-1] == pad and pad not in ends:
        kept.pop()
    return kept


def special_id(module: nn.Module, source: Source, role: str) -> int | None:
    """The id of the "start", "end" or "padding" token of the model's output, or None."""
    names = (source.ends,) if role == "end" and source.ends else SPECIAL_IDS[role]
    configs = (
        getattr(module, "generation_config", None),
        getattr(module, "config", None),
        getattr(source.submodule(module), "config", None),
    )
    for name in names:
        for config in configs:
            found = getattr(config, name, None)
            if isinstance(found, int) and not isinstance(found, bool):
                return found
    return None


def start_id(module: nn.Module, source: Source) -> int:
    """The id that the model's output starts with."""
    found = special_id(module, source, "start")
    if found is None:
        raise InputError(
            f"the config of {type(module).__name__} has no decoder_start_token_id",
            argument="inputs",
            remedy=f"Set it, or pass '{source.carrier}' in the inputs",
        )
    return found


def output_text(row: Sequence[int], tokenizer: Any, continues: bool = False) -> str:
    """All tokens of an output as text, without special tokens if others remain.

    If it `continues` a prompt, its white space is kept: after "The capital is", " Berlin" is
    another answer than "Berlin".
    """
    if tokenizer is None:
        return " ".join(map(str, row))
    whole = str(tokenizer.decode(list(row), skip_special_tokens=True))
    text = whole.strip()
    if not text:
        return " ".join(token_texts(row, tokenizer))
    if not continues:
        return text
    # Some tokenizers leave out the space before the first word.
    first = exact_pieces(tokenizer, row[:1], [True])[0]
    return f" {whole}" if first[:1] == " " != whole[:1] else whole
