"""Generated text as a target: every token of it explained, teacher-forced, in one batch.

One row of the batch per generated token: the same sample, asked about another position. What a
model wrote is given as ids (as `model.generate` returns them) or, for an encoder-decoder, as text;
where nothing is given, an encoder-decoder is asked to write first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import InputError, TargetError
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import texts_of
from whyformer.inputs.padding import pad_rows, padding_id
from whyformer.inputs.sequence import Sequences, move_to_module
from whyformer.inputs.text import tokenizer_scope
from whyformer.models.families import Family, Source
from whyformer.models.signature import config_of, forward_of
from whyformer.targets.specs import Contrast, Token

GENERATED = "generated"
Rows = list[list[int]]


@dataclass(frozen=True)
class Generation:
    """Every generated token as a row of a batch, and how to put the rows together again."""

    prepared: Batch  # one row per token
    targets: tuple[Token, ...]
    sample: tuple[int, ...]  # of each row
    place: tuple[int, ...]  # of each row: which of the sample's generated tokens
    said: tuple[tuple[str, ...], ...]  # those tokens in words, per sample
    texts: tuple[str, ...]  # all of them together, per sample
    prompt: int | None = None  # columns before the generated ones, if both are one sequence


def generation_of(
    target: Any,
    prepared: Batch,
    module: nn.Module,
    family: Family | None,
    read: Callable[[Mapping[str, Any]], Batch],
    write: Callable[[nn.Module, Mapping[str, Any]], Tensor],
) -> tuple[Batch, Any, Generation | None]:
    """What is to be run and explained: as it was, or with a generated text in its place.

    `read` prepares a mapping of what forward takes; `write` lets a model generate from it.
    """
    source = next((s for s in family.sources if s.stream == GENERATED), None) if family else None
    if source is None:
        if not _is_rows(target) or not _continues(module, prepared):
            return prepared, target, None
        return _continued(_rows(target), prepared, module, read)
    if GENERATED in prepared.others:
        if not _is_rows(target):
            return prepared, target, None
        raise TargetError(
            f"the target is a generated text and the inputs already have '{source.carrier}'; pass"
            " one of them, or target=wf.token(position, token)"
        )
    tokenizer = prepared.tokenizer
    if target is None or isinstance(target, Token | Contrast):
        rows = _trimmed(_rows(write(module, prepared.arguments)), module, source)
    elif isinstance(target, str) or _is_texts(target):
        rows = _encoded(target, tokenizer, module, source)
    elif _is_rows(target):
        rows = _trimmed(_rows(target), module, source)
    else:
        rows = [[] for _ in range(prepared.size)]  # the first token, whatever it is
    if len(rows) != prepared.size:
        raise TargetError(
            f"{len(rows)} generated texts were given for {prepared.size} samples; pass one each"
        )
    start = _start_id(module, source)
    if isinstance(target, Token | Contrast) or not any(rows):
        spoken = [[start, *row[:-1]] for row in rows]
        return _with_prefix(prepared, spoken, module, source), target, None
    empty = [i for i, row in enumerate(rows) if not row]
    if empty:
        raise TargetError(
            f"the generated text of sample {empty[0]} is empty: there is nothing to explain; leave"
            " the sample out"
        )
    whole = _with_prefix(prepared, [[start, *row[:-1]] for row in rows], module, source)
    return _each_token(whole, rows, [list(range(len(row))) for row in rows], tokenizer)


def _each_token(
    prepared: Batch,
    rows: Rows,
    columns: list[list[int]],
    tokenizer: Any,
    prompt: int | None = None,
) -> tuple[Batch, Any, Generation]:
    """The batch with one row per token; `columns` are the positions that speak."""
    pairs = [(i, t) for i, row in enumerate(rows) for t in range(len(row))]
    sample = tuple(i for i, _ in pairs)
    targets = tuple(Token(columns[i][t], rows[i][t]) for i, t in pairs)
    generation = Generation(
        prepared=prepared.take(sample),
        targets=targets,
        sample=sample,
        place=tuple(t for _, t in pairs),
        said=tuple(tuple(_word(token, tokenizer) for token in row) for row in rows),
        texts=tuple(_text(row, tokenizer) for row in rows),
        prompt=prompt,
    )
    return generation.prepared, list(targets), generation


# -- what was written ------------------------------------------------------------------------------


def _is_rows(target: Any) -> bool:
    """Whether this is a list of token ids per sample."""
    if isinstance(target, Tensor) or hasattr(target, "tolist"):
        return getattr(target, "ndim", 0) == 2 and "int" in str(target.dtype)
    return (
        isinstance(target, list | tuple)
        and bool(target)
        and all(isinstance(row, list | tuple) for row in target)
        and all(type(token) is int for row in target for token in row)
    )


def _rows(target: Any) -> Rows:
    listed = target.tolist() if hasattr(target, "tolist") else target
    return [list(row) for row in listed]


def _is_texts(target: Any) -> bool:
    return isinstance(target, list) and bool(target) and all(isinstance(t, str) for t in target)


def _encoded(target: Any, tokenizer: Any, module: nn.Module, source: Source) -> Rows:
    """The ids of an output given as text."""
    if tokenizer is None:
        raise TargetError(
            f"the target is text and {type(module).__name__} comes without a tokenizer; pass"
            " processor=, or the ids of the generated tokens"
        )
    texts = [text for text in texts_of(target) if isinstance(text, str)]
    with tokenizer_scope(tokenizer):
        # As what is written, which translators tokenize otherwise than what is read.
        rows = tokenizer(text_target=texts, truncation=False, padding=False)["input_ids"]
    return _trimmed(_rows(rows), module, source)


def _trimmed(rows: Rows, module: nn.Module, source: Source) -> Rows:
    """The tokens that the model wrote: without its start before and padding behind the end."""
    start, end, pad = (_special(module, source, role) for role in ("start", "eos", "pad"))
    trimmed = []
    for row in rows:
        kept = row[1:] if row[:1] == [start] else list(row)
        if end in kept:
            kept = kept[: kept.index(end) + 1]
        while kept and kept[-1] == pad != end:
            kept.pop()
        trimmed.append(kept)
    return trimmed


def _special(module: nn.Module, source: Source, role: str) -> int | None:
    """The id of the start, the end or the padding of what the model writes."""
    names = {
        "start": ("decoder_start_token_id", "bos_token_id"),
        "eos": ("eos_token_id", "sep_token_id"),
        "pad": ("pad_token_id",),
    }[role]
    if role == "eos" and source.ends:
        names = (source.ends,)
    places = (
        getattr(module, "generation_config", None),
        getattr(module, "config", None),
        getattr(source.submodule(module), "config", None),
    )
    for name in names:
        for place in places:
            found = getattr(place, name, None)
            if isinstance(found, int) and not isinstance(found, bool):
                return found
    return None


def _start_id(module: nn.Module, source: Source) -> int:
    found = _special(module, source, "start")
    if found is None:
        raise InputError(
            f"{type(module).__name__} names no decoder_start_token_id in its config; set it, or"
            f" pass '{source.carrier}' in the inputs"
        )
    return found


def _word(token: int, tokenizer: Any) -> str:
    if tokenizer is None:
        return str(token)
    return str(tokenizer.decode([token], skip_special_tokens=False)).strip() or repr(token)


def _text(row: Sequence[int], tokenizer: Any) -> str:
    if tokenizer is None:
        return " ".join(map(str, row))
    said = str(tokenizer.decode(list(row), skip_special_tokens=True)).strip()
    return said or " ".join(_word(token, tokenizer) for token in row)


# -- encoder-decoders ------------------------------------------------------------------------------


def _with_prefix(prepared: Batch, rows: Rows, module: nn.Module, source: Source) -> Batch:
    """The inputs with what was written so far as the decoder's own."""
    part = source.submodule(module)
    ids = pad_rows(rows, padding_id(part, prepared.tokenizer))
    mask = pad_rows([[1] * len(row) for row in rows], 0)
    own = move_to_module({source.carrier: ids, source.mask or "attention_mask": mask}, module)
    stream = Sequences(
        arguments=own,
        carrier=source.carrier,
        module=part,
        forward=forward_of(module),
        stream=GENERATED,
        tokenizer=prepared.tokenizer,
        mask_name=source.mask or "attention_mask",
    ).batch()
    return replace(
        prepared,
        arguments={**prepared.arguments, **stream.arguments},
        # An input that says nothing still has the same words written under it.
        baseline_arguments={**prepared.baseline_arguments, **stream.baseline_arguments},
        others={**prepared.others, GENERATED: stream},
    )


# -- decoders --------------------------------------------------------------------------------------


def _continues(module: nn.Module, prepared: Batch) -> bool:
    """Whether the model writes on from its input."""
    can = getattr(module, "can_generate", None)
    return prepared.stream == "text" and "input_ids" in prepared.arguments and bool(can and can())


def _continued(
    rows: Rows, prepared: Batch, module: nn.Module, read: Callable[[Mapping[str, Any]], Batch]
) -> tuple[Batch, Any, Generation]:
    """Prompt and continuation as one text, padding in front so that all continue in one column."""
    assert prepared.mask is not None
    ids = prepared.arguments["input_ids"]
    prompts = [row[real].tolist() for row, real in zip(ids, prepared.mask, strict=True)]
    if len(rows) != len(prompts):
        raise TargetError(
            f"{len(rows)} generated texts were given for {len(prompts)} samples; pass one each"
        )
    pad = padding_id(module, prepared.tokenizer)
    end = getattr(config_of(module), "eos_token_id", None)
    news = []
    for prompt, row in zip(prompts, rows, strict=True):
        new = _after(prompt, row, pad)
        if end in new:
            new = new[: new.index(end) + 1]
        while new and new[-1] == pad != end:
            new.pop()
        if not new:
            raise TargetError("the generated text is empty: it only repeats the prompt")
        news.append(new)
    width, length = max(map(len, prompts)), max(map(len, news))
    whole, mask = [], []
    for prompt, new in zip(prompts, news, strict=True):
        before, behind = width - len(prompt), length - len(new)
        whole.append([pad] * before + prompt + new + [pad] * behind)
        mask.append([0] * before + [1] * (len(prompt) + len(new)) + [0] * behind)
    again = read({"input_ids": torch.tensor(whole), "attention_mask": torch.tensor(mask)})
    columns = [[width + t - 1 for t in range(len(new))] for new in news]
    return _each_token(again, news, columns, prepared.tokenizer, prompt=width)


def _after(prompt: list[int], row: list[int], pad: int) -> list[int]:
    """What a row adds to the prompt that it begins with, whatever padding is in front."""
    for start in range(len(row) - len(prompt) + 1):
        if row[start : start + len(prompt)] == prompt and set(row[:start]) <= {pad}:
            return row[start + len(prompt) :]
    return row
