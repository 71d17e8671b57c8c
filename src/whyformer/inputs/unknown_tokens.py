"""Unknown tokens by the text that they stand for, instead of [UNK]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import Text
from whyformer.inputs.tokenizer_scope import tokenizer_scope
from whyformer.inputs.words import visible_text

SHOWN = 5  # texts that the note names


def name_unknown_tokens(batch: Batch, texts: Sequence[Text], tokenizer: Any) -> Batch:
    """Return the batch with the source text of unknown tokens as their text, and a note.

    Only tokenizers that know the place of each token in the text can tell; with others, and where
    the tokens were cut otherwise, the unknown token keeps its name.
    """
    unknown = getattr(tokenizer, "unk_token_id", None)
    if unknown is None or batch.tokens is None or not getattr(tokenizer, "is_fast", False):
        return batch
    name = str(tokenizer.unk_token)
    rows: list[list[int]] = batch.arguments[batch.carrier].tolist()
    tokens = list(batch.tokens)
    found: list[str] = []
    for sample, text in enumerate(texts):
        if unknown not in rows[sample]:
            continue
        sources = _source_texts(text, rows[sample], unknown, tokenizer)
        tokens[sample] = tuple(sources.get(k, token) for k, token in enumerate(tokens[sample]))
        found += sources.values()
    if not found:
        return batch
    few = ", ".join(dict.fromkeys(found[:SHOWN])) + (", ..." if len(found) > SHOWN else "")
    note = f"The tokenizer does not know these, and the model reads each as {name}: {few}"
    return replace(batch, tokens=tuple(tokens), notes=(*batch.notes, note))


def _source_texts(text: Text, ids: Sequence[int], unknown: int, tokenizer: Any) -> dict[int, str]:
    """The text of each unknown token of one sample, by its place."""
    parts = (text,) if isinstance(text, str) else text
    with tokenizer_scope(tokenizer):
        encoding = tokenizer(*parts, return_offsets_mapping=True, truncation=False, padding=False)
    sides = encoding.sequence_ids(0)
    both = zip(encoding["input_ids"], encoding["offset_mapping"], sides, strict=True)
    found = {}
    for k, (token, (start, end), side) in enumerate(both):
        if k >= len(ids) or token != ids[k]:
            break  # cut: what follows is at other places
        if token == unknown and side is not None and end > start:
            found[k] = visible_text(parts[side][start:end])
    return found
