"""Which entries of a model's scores a target means, one sample at a time."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import TargetError
from whyformer.inputs.batch import Batch
from whyformer.targets import heads
from whyformer.targets.heads import Head
from whyformer.targets.labels import NAMES_SHOWN, ClassNames, Vocabulary
from whyformer.targets.specs import Contrast, Query, Span, Token


@dataclass(frozen=True)
class Selection:
    """Entries of one sample's scores, each added or subtracted, and what they are called."""

    terms: tuple[tuple[int, tuple[int, ...]], ...]  # (sign, where in the sample's scores)
    index: int
    label: str


class Selector:
    """A head that can be asked for one sample's target at a time."""

    def __init__(self, head: Head, module: nn.Module, prepared: Batch) -> None:
        self.head, self.module, self.prepared = head, module, prepared
        self.known = head.scores.detach()
        tokens = head.kind in (heads.NEXT_TOKEN, heads.MASKED_TOKEN)
        count = head.scores.shape[-1]
        self.names: ClassNames | Vocabulary = (
            Vocabulary(prepared.tokenizer, count)
            if tokens
            else ClassNames(module, count, head.names)
        )

    def select(self, wanted: Any, sample: int) -> Selection:
        """The entries of one sample's scores that the target means."""
        if isinstance(wanted, Selection):
            return wanted
        if isinstance(wanted, Contrast):
            return self.select_contrast(wanted, sample)
        if isinstance(wanted, Query) and self.head.kind != heads.QUERIES:
            raise TargetError(
                f"the target {wanted} asks an object query and {type(self.module).__name__} has"
                f" none: it gives {self.head.kind}"
            )
        if wanted is not None and not isinstance(wanted, Query | Token | Span):
            wanted = _index_or_name(wanted)
        return _READERS[self.head.kind](self, wanted, sample)

    def select_contrast(self, wanted: Contrast, sample: int) -> Selection:
        """Why one rather than the other."""
        if self.head.kind == heads.NUMBER:
            raise TargetError(
                f"the target {wanted} compares two classes and {type(self.module).__name__} gives"
                " one number; pass target=None"
            )
        for side in (wanted.chosen, wanted.other):
            if side is None or isinstance(side, Contrast) or is_callable(side):
                raise TargetError(
                    f"contrast() takes two classes, labels, tokens or spans, not {side!r}; write a"
                    " callable for anything else"
                )
        chosen, other = self.select(wanted.chosen, sample), self.select(wanted.other, sample)
        return Selection(
            chosen.terms + tuple((-sign, where) for sign, where in other.terms),
            chosen.index,
            f"{chosen.label} rather than {other.label}",
        )

    def select_number(self, wanted: Any, sample: int) -> Selection:
        """The one number of a regression head."""
        name = self.head.names[0] if self.head.names else self.names.name(0)
        label = "score" if name in ("0", "LABEL_0") else name
        if wanted not in (None, 0) and str(wanted).casefold() not in (label.casefold(), "score"):
            raise TargetError(
                f"there is no target {wanted!r}: {type(self.module).__name__} gives one number,"
                f" {label!r}; pass target=None"
            )
        return Selection(((1, (0,)),), 0, label)

    def select_class(self, wanted: Any, sample: int) -> Selection:
        """A class; by default the one with the highest score."""
        self.refuse(wanted, Token, Span)
        index = self.names.index(wanted) if wanted is not None else self.best(sample)
        return Selection(((1, (index,)),), index, self.names.name(index))

    def select_next_token(self, wanted: Any, sample: int) -> Selection:
        """The token that follows; by default after the last real token, and the likeliest."""
        self.refuse(wanted, Span)
        if isinstance(wanted, Token):
            return self.select_at(self.column(wanted.position, sample), wanted.token, sample)
        mask = self.prepared.mask
        width = self.known.shape[1]
        last = width - 1 if mask is None else int(mask[sample].nonzero().max())
        return self.select_at(min(last, width - 1), wanted, sample)

    def select_masked_token(self, wanted: Any, sample: int) -> Selection:
        """The token under a mask; by default under the first, and the likeliest."""
        self.refuse(wanted, Span)
        if isinstance(wanted, Token):
            return self.select_at(self.column(wanted.position, sample), wanted.token, sample)
        mask_id = getattr(self.prepared.tokenizer, "mask_token_id", None)
        if mask_id is None:
            mask_id = getattr(getattr(self.module, "config", None), "mask_token_id", None)
        ids = self.prepared.arguments.get("input_ids")
        hidden = [] if ids is None or mask_id is None else (ids[sample] == mask_id).nonzero()
        if not len(hidden):
            raise TargetError(
                f"sample {sample} has no mask token whose replacement could be explained; put"
                f" {getattr(self.prepared.tokenizer, 'mask_token', None) or 'the mask token'!r}"
                " into the text, or pass target=wf.token(position)"
            )
        return self.select_at(int(hidden[0]), wanted, sample)

    def select_token_class(self, wanted: Any, sample: int) -> Selection:
        """The class of one token, which the user has to name."""
        self.refuse(wanted, Span)
        if isinstance(wanted, Token):
            return self.select_at(self.column(wanted.position, sample), wanted.token, sample)
        raise TargetError(
            f"{type(self.module).__name__} gives a class per token; say which token with"
            f" target=wf.token(position, label). Sample {sample} says {self.predictions(sample)}"
        )

    def select_span(self, wanted: Any, sample: int) -> Selection:
        """The score of a span, start plus end; by default of the best one among real tokens."""
        if wanted is not None and not isinstance(wanted, Span):
            raise TargetError(
                f"{type(self.module).__name__} gives answer spans and the target is {wanted!r};"
                " pass target=None for the best answer, or wf.span(start, end)"
            )
        if wanted is None:
            start, end = self.best_span(sample)
        else:
            start, end = (self.column(p, sample) for p in (wanted.start, wanted.end))
            if start > end:
                raise TargetError(
                    f"the target {wanted} ends before it starts; pass wf.span(start, end)"
                )
        places = [self.position(sample, column) for column in (start, end)]
        label = f"tokens {places[0]} to {places[1]}"
        if self.prepared.tokens is not None:
            label += f": {' '.join(self.prepared.tokens[sample][start : end + 1])}"
        return Selection(((1, (start, 0)), (1, (end, 1))), places[0], label)

    def select_query(self, wanted: Any, sample: int) -> Selection:
        """A class or a side of the box at one object query; by default the surest of all.

        "no object" is never the default.
        """
        classes = self.known[sample, :, : -len(heads.BOX)]
        if wanted is None:
            sure = self.known[sample, :, : 1 - len(heads.BOX)].softmax(-1)[:, :-1].amax(-1)
            wanted = Query(int(sure.argmax()))
        if not isinstance(wanted, Query):
            raise TargetError(
                f"{type(self.module).__name__} gives classes for {len(classes)} object"
                f" queries; say which with target=wf.query(index, label), not {wanted!r}"
            )
        if type(wanted.index) is not int or not 0 <= wanted.index < len(classes):
            raise TargetError(
                f"there is no object query {wanted.index!r}; pass 0 to {len(classes) - 1}"
            )
        best = int(classes[wanted.index].argmax())
        index = best if wanted.label is None else self.names.index(_index_or_name(wanted.label))
        label = f"{self.names.name(index)} at query {wanted.index}"
        return Selection(((1, (wanted.index, index)),), index, label)

    def select_at(self, column: int, wanted: int | str | None, sample: int) -> Selection:
        """One entry of the scores in a column; by default the highest."""
        index = (
            self.best(sample, column)
            if wanted is None
            else self.names.index(_index_or_name(wanted))
        )
        return Selection(((1, (column, index)),), index, self.names.name(index))

    def best(self, sample: int, *column: int) -> int:
        """The entry with the highest score."""
        return int(self.known[(sample, *column)].argmax())

    def best_span(self, sample: int) -> tuple[int, int]:
        """Start and end of the span with the highest sum, among real tokens."""
        start, end = self.known[sample].float().unbind(-1)
        together = start[:, None] + end[None, :]
        allowed = torch.ones_like(together, dtype=torch.bool).triu()
        if self.prepared.mask is not None:
            real = self.prepared.mask[sample].to(allowed.device)
            allowed &= real[:, None] & real[None, :]
        best = int(together.masked_fill(~allowed, float("-inf")).argmax())
        return best // together.shape[1], best % together.shape[1]

    def column(self, position: Any, sample: int) -> int:
        """The model's column of a position, which must be that of a real token."""
        mask, layout = self.prepared.mask, self.prepared.layout
        count = self.known.shape[1] if layout is None else layout.user_columns
        if isinstance(position, bool) or not isinstance(position, int):
            raise TargetError(f"the position {position!r} is not a number; pass 0 to {count - 1}")
        if 0 <= position < count:
            column = position if layout is None else layout.column(sample, position)
            if mask is None or (column < mask.shape[1] and bool(mask[sample, column])):
                return column
        real = range(count)
        if mask is not None:
            columns = mask[sample].nonzero().flatten().tolist()
            real = range(self.position(sample, columns[0]), self.position(sample, columns[-1]) + 1)
        raise TargetError(
            f"sample {sample} has no token at position {position}; its tokens are at"
            f" {real.start} to {real.stop - 1}"
        )

    def position(self, sample: int, column: int) -> int:
        """The position that the user counts for one of the model's columns."""
        layout = self.prepared.layout
        return column if layout is None else layout.position(sample, column)

    def predictions(self, sample: int) -> str:
        """The predicted class of each of the first tokens."""
        mask, tokens = self.prepared.mask, self.prepared.tokens
        columns = range(self.known.shape[1])
        listed = [c for c in columns if mask is None or bool(mask[sample, c])]
        shown = [
            f"{self.position(sample, c)}"
            + (f" {tokens[sample][c]!r}" if tokens is not None else "")
            + f": {self.names.name(self.best(sample, c))}"
            for c in listed[: 2 * NAMES_SHOWN]
        ]
        more = f", ... {len(listed)} tokens in all" if len(listed) > len(shown) else ""
        return f"{', '.join(shown)}{more}."

    def refuse(self, wanted: Any, *kinds: type) -> None:
        """Nothing; raises where the target is of a kind that this head does not have."""
        if isinstance(wanted, kinds):
            raise TargetError(
                f"the target {wanted} does not fit {type(self.module).__name__}, which gives"
                f" {self.head.kind}; pass an index, a label, or a callable"
            )


_READERS: dict[str, Callable[[Selector, Any, int], Selection]] = {
    heads.NUMBER: Selector.select_number,
    heads.CLASSES: Selector.select_class,
    heads.NEXT_TOKEN: Selector.select_next_token,
    heads.MASKED_TOKEN: Selector.select_masked_token,
    heads.TOKEN_CLASSES: Selector.select_token_class,
    heads.SPANS: Selector.select_span,
    heads.QUERIES: Selector.select_query,
}


def _index_or_name(wanted: Any) -> int | str:
    """The target as a number or a name."""
    if isinstance(wanted, bool):
        raise TargetError(
            f"the target is {wanted!r}, a truth value; pass a class index, a label, or"
            f" {int(wanted)} if that class is meant"
        )
    if isinstance(wanted, str):
        return wanted
    try:
        return operator.index(wanted)
    except TypeError as error:
        raise TargetError(
            f"the target is {wanted!r} of type {type(wanted).__name__}; pass an index, a label,"
            " one of them per sample, wf.contrast, wf.token, wf.span, wf.query or a callable"
        ) from error


def is_callable(target: Any) -> bool:
    return callable(target) and not isinstance(target, Tensor)
