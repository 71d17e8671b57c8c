"""Tokenize texts and text pairs, padded to one length."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from torch import nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import Text
from whyformer.inputs.padding import pad_rows, padding_id
from whyformer.inputs.sequence import Groups, Sequences, move_to_module
from whyformer.inputs.tokenizer_scope import tokenizer_scope
from whyformer.inputs.unknown_tokens import name_unknown_tokens
from whyformer.models.signature import Forward, config_of, positions_of


def read_texts(
    texts: Sequence[Text],
    module: nn.Module,
    forward: Forward,
    tokenizer: Any | None,
    truncation: bool,
) -> Batch:
    """Return the texts as one padded batch."""
    arguments, groups, notes = text_arguments(texts, module, forward, tokenizer, truncation)
    batch = Sequences(
        arguments=move_to_module(arguments, module),
        carrier=forward.carrier("input_ids"),
        module=module,
        forward=forward,
        tokenizer=tokenizer,
        groups=groups,
        notes=notes,
    ).batch()
    return name_unknown_tokens(batch, texts, tokenizer)


def read_rows(
    rows: list[list[int]], groups: Groups, module: nn.Module, forward: Forward, tokenizer: Any
) -> Batch:
    """Return rows of token ids as one padded batch."""
    arguments = _arguments({"input_ids": rows}, module, forward, tokenizer)
    return Sequences(
        arguments=move_to_module(arguments, module),
        carrier=forward.carrier("input_ids"),
        module=module,
        forward=forward,
        tokenizer=tokenizer,
        groups=groups,
    ).batch()


def text_arguments(
    texts: Sequence[Text],
    module: nn.Module,
    forward: Forward,
    tokenizer: Any | None,
    truncation: bool,
) -> tuple[dict[str, Any], Groups, tuple[str, ...]]:
    """Return the arguments of forward, the tokenizer's word groups, and notes for the user."""
    if tokenizer is None:
        raise InputError(
            f"text was given and {type(module).__name__} comes without a tokenizer",
            argument="processor",
            remedy="Pass processor=, for instance the tokenizer it was trained with",
        )
    limit = positions_of(module)
    rows, groups = tokenize(tokenizer, texts, _needs_token_types(texts, module, forward, tokenizer))
    notes: tuple[str, ...] = ()
    longest = max(map(len, rows["input_ids"]))
    if limit is not None and longest > limit:
        if not truncation:
            raise InputError(
                f"the text has {longest} tokens, the model takes {limit}",
                argument="truncation",
                remedy=f"Pass truncation=True to keep the first {limit}",
            )
        cut = sum(len(row) > limit for row in rows["input_ids"])
        rows, groups = tokenize(tokenizer, texts, "token_type_ids" in rows, limit)
        notes = (f"{cut} of {len(texts)} texts cut to {limit} tokens, the longest had {longest}",)
    return _arguments(rows, module, forward, tokenizer), groups, notes


def tokenize(
    tokenizer: Any, texts: Sequence[Text], types: bool, limit: int | None = None
) -> tuple[dict[str, list[list[int]]], list[list[Hashable | None] | None]]:
    """Return token ids (and types if `types`) per text, and the tokenizer's word groups."""
    pairs = not isinstance(texts[0], str)
    firsts = [text[0] if pairs else text for text in texts]
    seconds = [text[1] for text in texts] if pairs else None
    options: dict[str, Any] = {"truncation": limit is not None, "padding": False}
    if limit is not None:
        options["max_length"] = limit
    if types:
        options["return_token_type_ids"] = True
    with tokenizer_scope(tokenizer):
        encoding = tokenizer(firsts, seconds, **options)
    rows = {
        name: [list(row) for row in encoding[name]]
        for name in ("input_ids", "token_type_ids")
        if name in encoding and (name == "input_ids" or types)
    }
    return rows, [word_groups(encoding, index) for index in range(len(texts))]


def word_groups(encoding: Any, index: int) -> list[Hashable | None] | None:
    """A fast tokenizer's word of each token in one sample; None for a slow tokenizer."""
    if not getattr(encoding, "is_fast", False):
        return None
    # Word numbers restart in the second text of a pair.
    both = zip(encoding.sequence_ids(index), encoding.word_ids(index), strict=True)
    return [None if word is None else (part, word) for part, word in both]


def _needs_token_types(
    texts: Sequence[Text], module: nn.Module, forward: Forward, tokenizer: Any
) -> bool:
    """Whether to pass token types, which tell the two texts of a pair apart.

    Some tokenizers omit them by default, and a pair would then look like one text.
    """
    if not forward.takes("token_type_ids"):
        return False
    kinds = getattr(config_of(module), "type_vocab_size", None) or 0
    pairs = not isinstance(texts[0], str)
    return "token_type_ids" in getattr(tokenizer, "model_input_names", ()) or (pairs and kinds > 1)


def _arguments(
    rows: dict[str, list[list[int]]], module: nn.Module, forward: Forward, tokenizer: Any
) -> dict[str, Any]:
    """The rows as padded tensors, with the mask in the form that forward takes."""
    lengths = [len(row) for row in rows["input_ids"]]
    mask = pad_rows([[1] * length for length in lengths], 0)
    arguments: dict[str, Any] = {
        forward.carrier("input_ids"): pad_rows(rows["input_ids"], padding_id(module, tokenizer))
    }
    if "token_type_ids" in rows:
        arguments["token_type_ids"] = pad_rows(rows["token_type_ids"], 0)
    if forward.padding_mask is not None:
        arguments[forward.padding_mask] = mask == 0
    elif forward.takes("attention_mask"):
        arguments["attention_mask"] = mask
    elif len(set(lengths)) > 1:
        raise InputError(
            f"the texts have {min(lengths)} to {max(lengths)} tokens and the forward of"
            f" {type(module).__name__} takes no mask: padding would change the result",
            argument="inputs",
            remedy="Explain them one at a time",
        )
    return arguments
