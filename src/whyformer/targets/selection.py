"""Find the entries of a model's scores that a target means, one sample at a time."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import TargetError
from whyformer.inputs.batch import Batch
from whyformer.inputs.words import special_ids
from whyformer.targets import heads
from whyformer.targets.context import context_columns
from whyformer.targets.find_text import find_text
from whyformer.targets.heads import Head
from whyformer.targets.kept_scores import LOGITS_TO_KEEP, column_of
from whyformer.targets.labels import NAMES_SHOWN, ClassNames, Vocabulary
from whyformer.targets.specs import Contrast, Query, Span, Token

LONGEST_ANSWER = 15  # tokens in an answer that is found in a text, as in transformers' pipelines
Terms = tuple[tuple[int, tuple[int, ...]], ...]  # (sign, index into the sample's scores)
Places = tuple[Tensor, ...]  # the terms' entries, one index tensor per axis of the scores
NOTHING = ("o", "no object")  # names of classes that stand for nothing found


@dataclass(frozen=True)
class Selection:
    """Entries of one sample's scores, each added or subtracted, with a label."""

    terms: Terms
    index: int
    label: str


def term_places(scores: Tensor, terms: list[Terms]) -> Places:
    """Return the terms' entries, one index tensor per axis of the scores."""
    places = [[(sample, *where) for _, where in row] for sample, row in enumerate(terms)]
    return torch.tensor(places, device=scores.device).unbind(-1)


class Selector:
    """Selects the entries of a head's scores for one sample's target at a time."""

    def __init__(self, head: Head, module: nn.Module, batch: Batch) -> None:
        self.head, self.module, self.batch = head, module, batch
        self.scores = head.scores.detach()
        tokens = head.kind in (heads.NEXT_TOKEN, heads.MASKED_TOKEN)
        count = head.scores.shape[-1]
        self.names: ClassNames | Vocabulary = (
            Vocabulary(batch.tokenizer, count) if tokens else ClassNames(module, count, head.names)
        )

    def select(self, target: Any, sample: int) -> Selection:
        """Return the entries of one sample's scores that the target means."""
        if isinstance(target, Selection):
            return target
        if isinstance(target, Contrast):
            return self.select_contrast(target, sample)
        if isinstance(target, Query) and self.head.kind != heads.QUERIES:
            raise TargetError(
                f"the target {target} is an object query and {type(self.module).__name__} has"
                f" none: it gives {self.head.kind}",
                argument="target",
                remedy="Pass an index, a label, or a callable",
            )
        if target is not None and not isinstance(target, Query | Token | Span):
            target = _index_or_name(target)
        return _SELECTORS[self.head.kind](self, target, sample)

    def select_contrast(self, target: Contrast, sample: int) -> Selection:
        """Select one score minus another."""
        if self.head.kind == heads.NUMBER:
            raise TargetError(
                f"the target {target} compares two classes and {type(self.module).__name__} gives"
                " one number",
                argument="target",
                remedy="Pass target=None",
            )
        for side in (target.chosen, target.other):
            if side is None or isinstance(side, Contrast) or is_callable(side):
                raise TargetError(
                    f"contrast() takes two classes, labels, tokens or spans, not {side!r}",
                    argument="target",
                    remedy="Write a callable for anything else",
                )
        chosen, other = self.select(target.chosen, sample), self.select(target.other, sample)
        return Selection(
            chosen.terms + tuple((-sign, where) for sign, where in other.terms),
            chosen.index,
            f"{chosen.label} rather than {other.label}",
        )

    def select_number(self, target: Any, sample: int) -> Selection:
        """Select the one number of a regression head."""
        name = self.head.names[0] if self.head.names else self.names.name(0)
        label = "score" if name in ("0", "LABEL_0") else name
        if target not in (None, 0) and str(target).casefold() not in (label.casefold(), "score"):
            raise TargetError(
                f"there is no target {target!r}: {type(self.module).__name__} gives one number,"
                f" {label!r}",
                argument="target",
                remedy="Pass target=None",
            )
        return Selection(((1, (0,)),), 0, label)

    def select_class(self, target: Any, sample: int) -> Selection:
        """Select a class, by default the one with the highest score."""
        self.check_kind(target, Token, Span)
        index = self.names.index(target) if target is not None else self.best(sample)
        return Selection(((1, (index,)),), index, self.names.name(index))

    def select_next_token(self, target: Any, sample: int) -> Selection:
        """Select a token that may follow the last one, by default the likeliest."""
        self.check_kind(target, Span)
        if isinstance(target, Token) and isinstance(target.position, str):
            return self.select_text(target.position, target, sample)
        if isinstance(target, Token):
            return self.select_at(self.column(target.position, sample), target.token, sample)
        mask = self.batch.mask
        width = self.scores.shape[1]
        last = width - 1 if mask is None else self.ahead + int(mask[sample].nonzero().max())
        return self.select_at(min(last, width - 1), target, sample)

    def select_text(self, text: str, target: Token, sample: int) -> Selection:
        """Select the tokens of a text, each where the model predicts it from those before.

        With a token of its own, the target is about this token in place of the text's first.
        """
        match = find_text(text, self.batch, sample, target.occurrence)
        before = self.ahead + match.first - 1
        if match.first < 1 and before < 0:
            raise TargetError(
                f"{text!r} is the first token of sample {sample}: nothing comes before it that"
                " could predict it",
                argument="target",
                remedy="Pass a later occurrence=, or another text",
            )
        if target.token is not None:
            return self.select_at(before, target.token, sample)
        self.check_computed(before)
        ids = self.batch.arguments[self.batch.carrier][sample, match.first : match.last + 1]
        terms = tuple((1, (before + t, index)) for t, index in enumerate(ids.tolist()))
        return Selection(terms, int(ids[0]), text)

    @property
    def ahead(self) -> int:
        """How many scores come before those of the text: a language model's image tokens.

        Below 0 if the model was asked to leave out the first scores.
        """
        mask = self.batch.mask
        if self.head.kind != heads.NEXT_TOKEN or mask is None or self.batch.stream != "text":
            return 0
        more = self.scores.shape[1] - mask.shape[1]
        return more if LOGITS_TO_KEEP in self.batch.arguments else max(0, more)

    def select_masked_token(self, target: Any, sample: int) -> Selection:
        """Select a token in place of the first mask token, by default the likeliest."""
        self.check_kind(target, Span)
        if isinstance(target, Token):
            return self.select_at(self.token_column(target, sample), target.token, sample)
        mask_id = getattr(self.batch.tokenizer, "mask_token_id", None)
        if mask_id is None:
            mask_id = getattr(getattr(self.module, "config", None), "mask_token_id", None)
        ids = self.batch.arguments.get("input_ids")
        hidden = [] if ids is None or mask_id is None else (ids[sample] == mask_id).nonzero()
        if not len(hidden):
            token = getattr(self.batch.tokenizer, "mask_token", None)
            named = "" if token is None else f" {token!r}"
            raise TargetError(
                f"sample {sample} has no mask token{named} whose replacement could be explained",
                argument="mask_token",
                remedy=f"Put{named or ' one'} into the text, or pass target=wf.token(position)",
            )
        return self.select_at(int(hidden[0]), target, sample)

    def select_token_class(self, target: Any, sample: int) -> Selection:
        """Select the class of one token, by default of the one with the most confident class.

        A class that stands for nothing found ("O") and special tokens do not count, unless there
        is nothing else.
        """
        self.check_kind(target, Span)
        if isinstance(target, Token):
            return self.select_named_place(self.token_column(target, sample), target.token, sample)
        if target is not None:
            raise TargetError(
                f"{type(self.module).__name__} gives {self.head.kind}, and the target names none."
                f" The model predicts for sample {sample}: {self.predictions(sample)}",
                argument="head",
                remedy="Pass target=wf.token(position, label)",
            )
        return self.select_named_place(*self.most_confident(sample), sample)

    def select_named_place(self, column: int, wanted: Any, sample: int) -> Selection:
        """Select a class at a token; the label says where it was read."""
        found = self.select_at(column, wanted, sample)
        return replace(found, label=f"{found.label} at {self.place(sample, column)}")

    def place(self, sample: int, column: int) -> str:
        """Where a token class was read, as text: its position, and its token if that is known."""
        if self.head.kind == heads.PIXEL_CLASSES:
            return f"pixel {self.position(sample, column)}"
        tokens = self.batch.tokens
        token = "" if tokens is None else tokens[sample][column].strip()
        return f"position {self.position(sample, column)}{token and f' ({token})'}"

    def most_confident(self, sample: int) -> tuple[int, int]:
        """The column and the class with the highest probability, at real tokens."""
        probabilities = self.scores[sample].float().softmax(-1)
        count = probabilities.shape[-1]
        if count == 1:
            probabilities = self.scores[sample].float()
        nothing = [i for i in range(count) if self.names.name(i).casefold() in NOTHING]
        if len(nothing) < count:
            probabilities[:, nothing] = -math.inf
        mask = self.batch.mask
        if mask is not None and mask.shape[1] == len(probabilities):
            probabilities[~self.word_columns(mask[sample], sample)] = -math.inf
        best = int(probabilities.argmax())
        return best // count, best % count

    def word_columns(self, real: Tensor, sample: int) -> Tensor:
        """(tokens,) True at real tokens that are not special; at all real ones if none is left."""
        ids = self.batch.arguments[self.batch.carrier][sample]
        if self.batch.tokenizer is None or ids.shape != real.shape or ids.is_floating_point():
            return real.to(self.scores.device)
        special = torch.tensor(sorted(special_ids(self.batch.tokenizer)), dtype=ids.dtype)
        words = real.cpu() & ~torch.isin(ids.cpu(), special)
        return (words if bool(words.any()) else real).to(self.scores.device)

    def select_span(self, target: Any, sample: int) -> Selection:
        """Select the start plus the end of a span, by default of the best span of real tokens."""
        if target is not None and not isinstance(target, Span):
            raise TargetError(
                f"{type(self.module).__name__} gives answer spans and the target is {target!r}",
                argument="target",
                remedy="Pass target=None for the best answer, wf.span(start, end), or"
                " wf.span(text)",
            )
        if target is None:
            start, end = self.best_span(sample)
        elif isinstance(target.start, str):
            context = context_columns(self.batch, sample)
            match = find_text(target.start, self.batch, sample, target.occurrence, context)
            start, end = match.first, match.last
        else:
            start, end = (self.column(p, sample) for p in (target.start, target.end))
            if start > end:
                raise TargetError(
                    f"the target {target} ends before it starts",
                    argument="target",
                    remedy="Pass wf.span(start, end)",
                )
        first, last = (self.position(sample, column) for column in (start, end))
        label = f"tokens {first} to {last}"
        if self.batch.tokens is not None:
            label += f": {' '.join(self.batch.tokens[sample][start : end + 1])}"
        return Selection(((1, (start, 0)), (1, (end, 1))), first, label)

    def select_query(self, target: Any, sample: int) -> Selection:
        """Select a class or a side of the box of an object query.

        By default the query with the most confident class, which is never "no object".
        """
        classes = self.scores[sample, :, : -len(self.head.names)]
        if target is None:
            if self.head.names[0] == heads.BOX[0]:  # with a class of "no object"
                all_scores = self.scores[sample, :, : classes.shape[-1] + 1]
                confidence = all_scores.softmax(-1)[:, :-1].amax(-1)
            else:
                confidence = classes.amax(-1)
            target = Query(int(confidence.argmax()))
        if not isinstance(target, Query):
            raise TargetError(
                f"{type(self.module).__name__} gives classes for {len(classes)} object queries,"
                f" and the target is {target!r}",
                argument="target",
                remedy="Pass target=wf.query(index, label)",
            )
        if type(target.index) is not int or not 0 <= target.index < len(classes):
            raise TargetError(
                f"there is no object query {target.index!r}; the model has 0 to {len(classes) - 1}",
                argument="query",
                remedy="Pass one of these, or target=None for the most confident one",
            )
        best = int(classes[target.index].argmax())
        index = best if target.label is None else self.names.index(_index_or_name(target.label))
        label = f"{self.names.name(index)} at query {target.index}"
        return Selection(((1, (target.index, index)),), index, label)

    def select_at(self, column: int, target: int | str | None, sample: int) -> Selection:
        """Select an entry of the scores in a column, by default the highest."""
        self.check_computed(column)
        if target is None:
            index = self.best(sample, column)
        else:
            index = self.names.index(_index_or_name(target))
        return Selection(((1, (column, index)),), index, self.names.name(index))

    def best(self, sample: int, *column: int) -> int:
        """The index of the highest score."""
        return int(self.scores[(sample, *column)].argmax())

    def best_span(self, sample: int) -> tuple[int, int]:
        """Start and end of the best answer, as question-answering pipelines choose it.

        The span of at most LONGEST_ANSWER tokens with the highest sum, inside the context if it
        is known which tokens these are, else among the real tokens.
        """
        start, end = self.scores[sample].float().unbind(-1)
        together = start[:, None] + end[None, :]
        allowed = torch.ones_like(together, dtype=torch.bool).triu().tril(LONGEST_ANSWER - 1)
        inside = context_columns(self.batch, sample)
        if inside is None and self.batch.mask is not None:
            inside = self.batch.mask[sample]
        if inside is not None:
            inside = inside.to(allowed.device)
            allowed &= inside[:, None] & inside[None, :]
        best = int(together.masked_fill(~allowed, float("-inf")).argmax())
        return best // together.shape[1], best % together.shape[1]

    def token_column(self, target: Token, sample: int) -> int:
        """The model's column of the token, given by position or by text."""
        if isinstance(target.position, str):
            return find_text(target.position, self.batch, sample, target.occurrence).first
        return self.column(target.position, sample)

    def column(self, position: Any, sample: int) -> int:
        """The model's column of a user's position; raise TargetError if no token is there.

        Negative positions count from the sample's last token.
        """
        mask, layout = self.batch.mask, self.batch.layout
        count = self.scores.shape[1] - self.ahead if layout is None else layout.user_columns
        if isinstance(position, bool) or not isinstance(position, int):
            raise TargetError(
                f"the position {position!r} is not an integer",
                argument="target",
                remedy=f"Pass 0 to {count - 1}",
            )
        if mask is not None:
            column = column_of(position, self.batch, sample)
        else:
            column = position % count if -count <= position < count else None
        if column is not None:
            return self.ahead + column
        real = range(count)
        if mask is not None:
            columns = mask[sample].nonzero().flatten().tolist()
            real = range(self.position(sample, columns[0]), self.position(sample, columns[-1]) + 1)
        raise TargetError(
            f"sample {sample} has no token at position {position}; its tokens are at"
            f" {real.start} to {real.stop - 1}",
            argument="target",
        )

    def check_computed(self, column: int) -> None:
        """Raise TargetError if the user told the model to leave out the scores in this column."""
        kept = self.batch.arguments.get(LOGITS_TO_KEEP)
        if column < 0 or isinstance(kept, Tensor):
            raise TargetError(
                f"{LOGITS_TO_KEEP}={kept!r} is in the inputs, and {type(self.module).__name__} may"
                " leave out the score that the target reads",
                argument="target",
                remedy=f"Leave out {LOGITS_TO_KEEP}; whyformer sets it",
            )

    def position(self, sample: int, column: int) -> int:
        """The user's position of one of the model's columns."""
        layout = self.batch.layout
        return column if layout is None else layout.position(sample, column)

    def predictions(self, sample: int) -> str:
        """The predicted classes of the first tokens, as text."""
        mask, tokens = self.batch.mask, self.batch.tokens
        columns = range(self.scores.shape[1])
        real = [c for c in columns if mask is None or bool(mask[sample, c])]
        shown = [
            f"{self.position(sample, c)}"
            + (f" {tokens[sample][c]!r}" if tokens is not None else "")
            + f": {self.names.name(self.best(sample, c))}"
            for c in real[: 2 * NAMES_SHOWN]
        ]
        more = f", ... {len(real)} tokens in all" if len(real) > len(shown) else ""
        return f"{', '.join(shown)}{more}"

    def check_kind(self, target: Any, *kinds: type) -> None:
        """Raise TargetError if the target is of one of these kinds, which the head lacks."""
        if isinstance(target, kinds):
            raise TargetError(
                f"the target {target} does not fit {type(self.module).__name__}, which gives"
                f" {self.head.kind}",
                argument="target",
                remedy="Pass an index, a label, or a callable",
            )


_SELECTORS: dict[str, Callable[[Selector, Any, int], Selection]] = {
    heads.NUMBER: Selector.select_number,
    heads.CLASSES: Selector.select_class,
    heads.NEXT_TOKEN: Selector.select_next_token,
    heads.MASKED_TOKEN: Selector.select_masked_token,
    heads.TOKEN_CLASSES: Selector.select_token_class,
    heads.PIXEL_CLASSES: Selector.select_token_class,
    heads.SPANS: Selector.select_span,
    heads.QUERIES: Selector.select_query,
}


def _index_or_name(target: Any) -> int | str:
    """The target as an integer or a string; raise TargetError if it is neither."""
    if isinstance(target, bool):
        raise TargetError(
            f"the target is {target!r}, a truth value",
            argument="target",
            remedy=f"Pass a class index, a label, or {int(target)} if that class is meant",
        )
    if isinstance(target, str):
        return target
    try:
        return operator.index(target)
    except TypeError as error:
        raise TargetError(
            f"the target is {target!r} of type {type(target).__name__}",
            argument="target",
            remedy="Pass an index, a label, one of them per sample, wf.contrast, wf.token,"
            " wf.span, wf.query or a callable",
        ) from error


def is_callable(target: Any) -> bool:
    """Whether the target is a function of the model's output."""
    return callable(target) and not isinstance(target, Tensor)
