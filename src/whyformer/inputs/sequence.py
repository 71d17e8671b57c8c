"""Prepare token sequences: check them, move padding to the right, make tokens readable."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.baseline import baseline_arguments, known_special_ids
from whyformer.inputs.batch import Batch, Parts, Tokens, WordIds
from whyformer.inputs.padding_layout import Layout, move_arguments
from whyformer.inputs.words import WordReader
from whyformer.models.signature import (
    Forward,
    config_of,
    device_and_dtype,
    embeddings_of,
    is_last_token_classifier,
    positions_of,
    samples_axis,
    vocabulary_in,
)

Groups = Sequence[Sequence[Hashable | None] | None]
TEXTS = ("text", "source", "generated")  # streams with a tokenizer


@dataclass(frozen=True)
class TokenRows:
    """The token ids of each sample and whether they are real, as lists: Python reads these fast."""

    ids: list[list[int]]
    real: list[list[bool]]

    def pairs(self) -> Iterator[tuple[list[int], list[bool]]]:
        """Yield the ids of each sample, and which of them are real."""
        return zip(self.ids, self.real, strict=True)

    def contents(self) -> tuple[bytes, ...]:
        """Return what `contents` returns for these samples."""
        return tuple(array("q", itertools.compress(*row)).tobytes() for row in self.pairs())


@dataclass(frozen=True)
class Sequences:
    """Token sequences of one stream, before they are checked and padded on the right."""

    arguments: Mapping[str, Any]
    carrier: str
    module: nn.Module
    forward: Forward
    stream: str = "text"
    tokenizer: Any | None = None
    groups: Groups | None = None  # the tokenizer's word of each token, per sample
    notes: tuple[str, ...] = field(default=())
    mask_name: str = "attention_mask"

    @property
    def is_text(self) -> bool:
        """Whether the tokens are text."""
        return self.stream in TEXTS

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids of special tokens; tokenizers look them up slowly."""
        return known_special_ids(self.module, self.tokenizer)

    def batch(self) -> Batch:
        """Return the batch, checked and with all padding on the right."""
        value: Tensor = self.arguments[self.carrier]
        self.check_ids(value)
        mask = self.mask()
        axis = samples_axis(self.module)
        if mask is None and self.is_text:
            mask = torch.ones(value.shape[:2], dtype=torch.bool, device=value.device)
        layout = None if mask is None or axis else self.layout(mask)
        arguments = dict(self.arguments)
        if layout is not None and mask is not None:
            arguments, mask = move_arguments(arguments, layout), layout.to_model(mask)
        if mask is not None:
            arguments = self.with_padding_ids(arguments, mask)
        rows = self.rows(arguments[self.carrier], mask)
        if rows is not None:
            self.check_not_empty(rows)
        if config_of(self.module) is not None and "use_cache" in self.forward.names:
            arguments.setdefault("use_cache", False)
        tokens, word_ids = (None, None) if rows is None else self.words(rows, layout)
        return Batch(
            arguments=arguments,
            baseline_arguments=baseline_arguments(
                arguments, self.carrier, self.module, self.tokenizer, mask, self.special
            ),
            carrier=self.carrier,
            size=value.shape[axis],
            stream=self.stream,
            content=contents(arguments[self.carrier].movedim(axis, 0), mask)
            if rows is None
            else rows.contents(),
            mask=mask,
            tokens=tokens,
            word_ids=word_ids,
            parts=self.parts(layout, value.shape[1]) if self.is_text else None,
            tokenizer=self.tokenizer,
            layout=layout,
            notes=self.notes,
        )

    def check_ids(self, value: Tensor) -> None:
        """Raise InputError if an id has no embedding, or if embeddings have another width."""
        table = embeddings_of(self.module)
        width = value.shape[-1]
        if self.carrier == "inputs_embeds" and table is not None and width != table.embedding_dim:
            raise InputError(
                f"'{self.carrier}' has shape {tuple(value.shape)}, the model's embeddings have"
                f" {table.embedding_dim} numbers per token",
                argument="inputs",
                remedy=f"Pass (batch, tokens, {table.embedding_dim})",
            )
        for name, size in (
            (self.carrier, vocabulary_in(table, self.module)),
            ("token_type_ids", getattr(config_of(self.module), "type_vocab_size", None)),
        ):
            ids = self.arguments.get(name)
            if not isinstance(ids, Tensor) or ids.is_floating_point() or not size:
                continue
            low, high = (int(end) for end in ids.aminmax()) if ids.numel() else (0, 0)
            if low < 0 or high >= size:
                outside = ids[(ids < 0) | (ids >= size)]
                raise InputError(
                    f"'{name}' has {outside.numel()} ids outside of the model's 0..{size - 1}, the"
                    f" first is {int(outside[0])}",
                    argument="inputs",
                    remedy="Use the tokenizer that belongs to the model",
                )

    def mask(self) -> Tensor | None:
        """(batch, tokens), True at real tokens, from the mask that was passed; None if none was."""
        shape = self.arguments[self.carrier].movedim(samples_axis(self.module), 0).shape[:2]
        padding = self.forward.padding_mask
        if padding and isinstance(passed := self.arguments.get(padding), Tensor):
            # torch's convention: True, or minus infinity, at padding.
            mask = passed == 0
        elif isinstance(passed := self.arguments.get(self.mask_name), Tensor) and passed.ndim <= 2:
            padding, mask = self.mask_name, passed != 0
        else:
            return None
        if mask.shape != shape:
            if not self.is_text:
                return None
            raise InputError(
                f"'{padding}' has shape {tuple(mask.shape)} and '{self.carrier}' has tokens of"
                f" shape {tuple(shape)}",
                argument="inputs",
                remedy="Pass one mask entry per token",
            )
        check_mask(mask, padding)
        return mask

    def layout(self, mask: Tensor) -> Layout | None:
        """How columns have to move so that padding is on the right; None if they need not move.

        Only the outermost zeros of a mask are padding. A zero between ones hides a token, which
        keeps its position.
        """
        columns = mask.shape[1]
        shift, needed = [0] * len(mask), columns
        if not bool(mask.all()):
            first = mask.int().argmax(dim=1)
            needed = int((columns - mask.flip(1).int().argmax(dim=1) - first).max())
            shift = first.tolist()
        limit = positions_of(self.module) if self.is_text else None
        if limit is not None and needed > limit:
            raise InputError(
                f"'{self.carrier}' has {needed} tokens, the model takes {limit}",
                argument="inputs",
                remedy="Shorten the tensors, or pass the text itself with truncation=True",
            )
        # Without a pad id, a decoder's classifier always reads the last column.
        reads_last = is_last_token_classifier(self.module) and self.pad_id() is None
        cuts = needed < columns and (reads_last or (limit is not None and columns > limit))
        if not cuts and not any(shift):
            return None
        return Layout(tuple(shift), columns, needed)

    def pad_id(self) -> int | None:
        """The padding id in the model's config, or None."""
        found = getattr(config_of(self.module), "pad_token_id", None)
        return found if isinstance(found, int) else None

    def with_padding_ids(self, arguments: dict[str, Any], mask: Tensor) -> dict[str, Any]:
        """The arguments with padding ids at padding, if the model searches for them."""
        value = arguments[self.carrier]
        if not is_last_token_classifier(self.module):
            return arguments
        name = type(self.module).__name__
        if self.pad_id() is None and len(value) > 1:
            eos = getattr(self.tokenizer, "eos_token_id", None)
            raise InputError(
                f"{name} finds the last token of each text by config.pad_token_id, which is None,"
                f" and {len(value)} texts were given",
                argument="model",
                remedy="Set model.config.pad_token_id"
                + (f" = {eos}" if eos is not None else "")
                + ", or explain one text at a time",
            )
        if bool(mask.all()):
            return arguments
        if value.is_floating_point():
            raise InputError(
                f"{name} cannot recognise padding in '{self.carrier}'",
                argument="inputs",
                remedy="Pass input_ids, or one sample at a time without padding",
            )
        return {**arguments, self.carrier: value.masked_fill(~mask, self.pad_id() or 0)}

    def rows(self, ids: Tensor, mask: Tensor | None) -> TokenRows | None:
        """The token ids of a text as lists; None for other tokens."""
        if mask is None or ids.is_floating_point() or not self.is_text:
            return None
        return TokenRows(ids.tolist(), mask.tolist())

    def check_not_empty(self, rows: TokenRows) -> None:
        """Raise InputError if a sample has only special tokens."""
        if self.tokenizer is None or self.stream == "generated":
            return
        special = self.special - {getattr(self.tokenizer, "mask_token_id", None)}
        for index, (row, real) in enumerate(rows.pairs()):
            if not special.issuperset(itertools.compress(row, real)):
                continue
            pieces = self.tokenizer.convert_ids_to_tokens([*itertools.compress(row, real)])
            raise InputError(
                f"sample {index} has only special tokens, {' '.join(map(str, pieces))}: there is"
                " nothing to explain",
                argument="inputs",
                remedy="Pass at least one word that the tokenizer keeps",
            )

    def words(self, rows: TokenRows, layout: Layout | None) -> tuple[Tokens, WordIds | None]:
        """Readable tokens and the word of each; without a tokenizer, the ids as text."""
        if self.tokenizer is None:
            return tuple(tuple(map(str, row)) for row in rows.ids), None
        found, reader = [], WordReader(self.tokenizer, self.special)
        for sample, (row, real) in enumerate(rows.pairs()):
            groups = self.groups[sample] if self.groups is not None else None
            if groups is not None and layout is not None:
                groups = layout.row_to_model(groups, sample)
            found.append(reader.read(row, real, groups))
        return tuple(tokens for tokens, _ in found), tuple(word_ids for _, word_ids in found)

    def parts(self, layout: Layout | None, width: int) -> Parts | None:
        """The text of a pair that each token is from; None if the tokenizer did not tell."""
        rows = []
        for sample, groups in enumerate(self.groups or ()):
            if groups is None:
                return None
            row = [group[0] if isinstance(group, tuple) else None for group in groups]
            row += [None] * (width - len(row))
            rows.append(tuple(row if layout is None else layout.row_to_model(row, sample)))
        return tuple(rows) or None


def check_mask(mask: Tensor, name: str) -> None:
    """Raise InputError if a (batch, tokens) mask hides all tokens of a sample."""
    has_tokens = mask.any(dim=1).tolist()
    if not all(has_tokens):
        sample = has_tokens.index(False)
        raise InputError(
            f"'{name}' hides every token of sample {sample}: there is nothing to explain",
            argument="inputs",
            remedy="Leave the sample out or correct its mask",
        )


def contents(value: Tensor, mask: Tensor | None = None) -> tuple[bytes, ...]:
    """The real tokens of each sample as bytes, independent of padding and other samples."""
    value = value.detach().cpu()
    # numpy has no bfloat16, and the bytes must not depend on the model's precision.
    value = value.float() if value.is_floating_point() else value.long()
    rows = value.numpy()
    if mask is None:
        return tuple(row.tobytes() for row in rows)
    return tuple(row[real].tobytes() for row, real in zip(rows, mask.cpu().numpy(), strict=True))


def move_to_module(arguments: Mapping[str, Any], module: nn.Module) -> dict[str, Any]:
    """Return detached arguments on the module's device, floating ones in its precision.

    For a model in half precision they are float32: it is explained in float32, and rounding its
    inputs would change the scores. `narrow_to_module` is for passes in the model's own precision.
    """
    device, dtype = device_and_dtype(module)
    dtype = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    return {
        name: value.detach().to(device, dtype if value.is_floating_point() else None)
        if isinstance(value, Tensor)
        else value
        for name, value in arguments.items()
    }


def narrow_to_module(arguments: Mapping[str, Any], module: nn.Module) -> dict[str, Any]:
    """Return the arguments with floating tensors in the module's own precision."""
    _, dtype = device_and_dtype(module)
    return {
        name: value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
        for name, value in arguments.items()
    }
