"""The ledger: relevance that does not reach a token, per sample and by cause.

With some factors detached, the explained value is linear in the token states x and in the
constants c (biases, class tokens, ...): value = sum of x * df/dx + sum of c * df/dc. The ledger
holds the second sum by name (sinks), and the relevance that operations without a rule lose (leaks).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whyformer.engine.rules import samples
from whyformer.engine.rules.bias_sinks import BiasSinks
from whyformer.engine.rules.cut_values import CutValues
from whyformer.engine.rules.operations.stabilise import HALF, wide
from whyformer.engine.rules.watched_values import Watched, WatchedValues
from whyformer.errors import ModelError


def is_tracked(value: Any) -> bool:
    """Whether the value depends on the token states: under rules, nothing else requires grad."""
    return isinstance(value, Tensor) and value.requires_grad


def relevance_of(gradient: Tensor, value: Tensor) -> Tensor:
    """gradient * value, and 0 where the gradient is 0, also if the value is infinite (masks)."""
    return (wide(gradient) * wide(value)).masked_fill_(gradient == 0, 0)


class Place(NamedTuple):
    """A block of a stack, and how many tokens enter it."""

    stack: str
    block: int
    tokens: int


Booking = tuple[str, Place | None]  # account, and the block that ran when it was opened


class Ledger:
    """Relevance by account, booked by hooks while the backward pass runs."""

    def __init__(
        self,
        batch: int,
        batch_first: bool = True,
        active: bool = True,
        declared: bool = True,
        per_token: bool = False,
    ) -> None:
        """Start with empty accounts.

        Args:
            batch: Number of samples.
            batch_first: Whether tensors are (batch, token, ...) and not (token, batch, ...).
            active: Whether to book anything; a method that conserves nothing needs no accounts.
            declared: Whether a family declares that samples come before heads in a joint axis.
            per_token: Whether to book constants inside the blocks for each token apart.
        """
        self.batch = batch
        self.declared = declared
        self.batch_first = batch_first
        self.in_torch_attention = False
        self.inside = False  # whether the token states have entered the blocks
        self.place: Place | None = None  # the block that runs now
        self.active = active
        self.per_token = per_token
        self.token_sinks: dict[Booking, Tensor] = {}  # (batch, tokens), if booked per token
        self.leaks_by_place: dict[Booking, Tensor] = {}  # (batch,)
        self.counts: Counter[str] = Counter()  # how often a rule was applied
        self.keeps_sum = True  # whether every rule of the method conserves
        self.mixed_up = False  # whether samples could not be told apart in some tensor
        self._sample: int | None = None  # the only sample whose relevance arrives now
        self.hidden: dict[str, None] = {}  # operations that no rule could see, in order
        self.cut = CutValues()  # values that the model computed with gradients off
        self._sinks: dict[Booking, Tensor] = {}
        self._biases: BiasSinks[tuple[Booking, bool]] = BiasSinks()  # the flag: batch_first
        self.values = WatchedValues()

    @property
    def sinks_by_place(self) -> dict[Booking, Tensor]:
        """The sinks that the backward pass has booked so far, (batch,) by account and block."""
        for (booking, batch_first), relevance in self._biases.take():
            self._add(self._sinks, booking, relevance, batch_first)
        return self._sinks

    @property
    def sinks(self) -> dict[str, Tensor]:
        """Relevance that went to constants, (batch,) by account."""
        return sum_by_account(self.sinks_by_place)

    @property
    def leaks(self) -> dict[str, Tensor]:
        """Relevance lost in operations without a rule, (batch,) by operation."""
        return sum_by_account(self.leaks_by_place)

    @property
    def may_mix_up(self) -> bool:
        """Whether samples may have to be booked again, one at a time."""
        return self.active and self.batch > 1

    def count(self, rule: str, times: int = 1) -> None:
        """Count uses of a rule, so that a method can tell whether its rule ever applied."""
        self.counts[rule] += times

    def clear(self) -> None:
        """Empty all accounts, before the backward pass runs again."""
        for book in (self._sinks, self.leaks_by_place, self.token_sinks):
            book.clear()
        self._biases.clear()

    @contextmanager
    def only_sample(self, sample: int) -> Iterator[None]:
        """Book everything for one sample: the backward pass starts from its value alone."""
        self._sample = sample
        try:
            yield
            _ = self.sinks_by_place  # biases that wait are booked for this sample too
        finally:
            self._sample = None

    def note_hidden(self, name: str) -> None:
        """Note an operation that ran where no rule could see it."""
        self.hidden[name] = None

    def missing(self, value: Tensor, scores: Iterable[Tensor]) -> Tensor:
        """What is missing in the balance of each sample, (batch,).

        `value` is (batch,), and `scores` are (batch, tokens).
        """
        found = [*self.sinks.values(), *self.leaks.values(), *(one.sum(1) for one in scores)]
        found += [one.sum(1) for one in self.token_sinks.values()]
        found = [one.to(value.device) for one in found]
        return wide(value.detach()) - sum(found[1:], found[0])

    def book_hidden(self, value: Tensor, scores: Iterable[Tensor]) -> None:
        """Book what is missing in the balance as lost in hidden operations.

        Every other operation is booked, so it was lost there.
        """
        if self.active and self.hidden and self.keeps_sum:
            missing = self.missing(value, scores)
            self.leaks_by_place[" and ".join(self.hidden), None] = missing

    def book_constant(self, account: str, output: Tensor, value: Tensor | float) -> None:
        """Book value * gradient of `output` as a sink; the value is an addend of `output`."""
        if not (self.active and output.requires_grad):
            return
        booking, dtype = (account, self.place), output.dtype
        constant = value if isinstance(value, Tensor) else torch.tensor(value)
        if constant.dtype is not dtype or dtype in HALF:  # `to` costs, even in vain
            constant = constant.to(torch.promote_types(dtype, torch.float32))
        if constant.dim() == 1 < output.dim() and constant.shape[0] == output.shape[-1]:
            note = self.values.add(self._biases.note((booking, self.batch_first), constant))
            # A backward pass of ours calls its notes itself; that costs less than a hook.
            notes = getattr(output.grad_fn, "bias_notes", None)
            if notes is None:
                output.register_hook(note)
            else:
                notes.append(note)
        else:
            watched = self.values.watch(constant)
            self._book_in_hook(self._sinks, booking, output, watched, self.batch_first)

    def alias(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs; tracked ones as views, so that their gradient is that of one operation."""
        return [x.view_as(x) if is_tracked(x) and self.active else x for x in inputs]

    def alias_call(
        self, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any], list[Any]]:
        """The arguments with aliases for tracked tensors, also those in lists; and the aliases."""
        if not self.active:
            return args, kwargs, []
        aliases: list[Any] = []
        return (
            tuple([_alias(value, aliases) for value in args]),
            {key: _alias(value, aliases) for key, value in kwargs.items()},
            aliases,
        )

    def measure(self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation as it is; book the relevance that it loses as a leak, by its name."""
        if not self.active:
            return function(*args, **kwargs)
        args, kwargs, aliases = self.alias_call(args, kwargs)
        output = function(*args, **kwargs)
        if aliases:
            self.book_difference(function.__name__, aliases, output, leak=True)
        return output

    def book_difference(
        self,
        account: str,
        inputs: Sequence[Any],
        output: Any,
        leak: bool = False,
        batch_first: bool | None = None,
    ) -> None:
        """Book the relevance of the output that the inputs (from `alias`) did not get.

        Pass `batch_first` for tensors with a fixed layout: attention maps always start with
        samples, or with samples and heads in one axis.
        """
        if not self.active:
            return
        first = self.batch_first if batch_first is None else batch_first
        book = self.leaks_by_place if leak else self._sinks
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        for sign, tensors in ((1, outputs), (-1, inputs)):
            for tensor in tensors:
                if is_tracked(tensor) and tensor.is_floating_point():
                    self._watch(book, account, tensor, sign, first)

    def _watch(
        self,
        book: dict[Booking, Tensor],
        account: str,
        tensor: Tensor,
        sign: int,
        batch_first: bool,
    ) -> None:
        watched, booking = self.values.watch(tensor), (account, self.place)
        self._book_in_hook(book, booking, tensor, watched, batch_first, sign)

    def _book_in_hook(
        self,
        book: dict[Booking, Tensor],
        booking: Booking,
        tensor: Tensor,
        watched: Watched,
        batch_first: bool,
        sign: int = 1,
    ) -> None:
        """Book value * gradient of a tensor when its gradient arrives."""

        def note(gradient: Tensor) -> None:
            relevance = relevance_of(gradient, watched.value)
            self._add(book, booking, relevance if sign == 1 else -relevance, batch_first)

        tensor.register_hook(note)

    def _add(
        self, book: dict[Booking, Tensor], booking: Booking, relevance: Tensor, batch_first: bool
    ) -> None:
        place = booking[1]
        amount = None
        if self.per_token and place is not None and book is self._sinks:
            amount = samples.sum_per_token(
                relevance, self.batch, place.tokens, batch_first, folded=self._sample is None
            )
        if amount is None and self._sample is not None:
            amount = relevance.new_zeros(self.batch)
            amount[self._sample] = relevance.sum()
        elif amount is None:
            try:
                amount = self.per_sample(relevance, batch_first)
            except ModelError:
                self.mixed_up = True  # the pass books each sample alone later
                amount = relevance.new_zeros(self.batch)
        else:
            book = self.token_sinks
        book[booking] = book[booking] + amount if booking in book else amount

    def check_order(self, attention: Tensor) -> None:
        """Raise ModelError if heads and samples share an axis in an unknown order."""
        folded = attention.dim() == 3 and attention.shape[0] > self.batch > 1
        if folded and not (self.declared or self.in_torch_attention):
            raise ModelError(
                f"an attention tensor of shape {tuple(attention.shape)} has heads and {self.batch}"
                " samples in one axis, and their order is unknown",
                argument="inputs",
                remedy="Explain one sample at a time",
            )

    @contextmanager
    def tokens_first(self) -> Iterator[None]:
        """Book (token, batch, ...) tensors inside this context: F.multi_head_attention_forward."""
        before = self.batch_first
        self.batch_first, self.in_torch_attention = False, True
        try:
            yield
        finally:
            self.batch_first, self.in_torch_attention = before, False

    def per_sample(self, relevance: Tensor, batch_first: bool = True) -> Tensor:
        """The sum over all axes but the samples, (batch,)."""
        return samples.sum_per_sample(relevance, self.batch, batch_first)

    def spread(self, relevance: Tensor, batch_first: bool = True) -> Tensor:
        """The sums per sample in a shape that broadcasts with the tensor."""
        return samples.spread_sums(relevance, self.batch, batch_first)


def _alias(value: Any, aliases: list[Any]) -> Any:
    """A view of a tracked tensor, which is added to `aliases`; lists are searched."""
    if type(value) in (tuple, list):
        return type(value)([_alias(one, aliases) for one in value])
    if is_tracked(value):
        aliases.append(value.view_as(value))
        return aliases[-1]
    return value


def sum_by_account(bookings: Mapping[Booking, Tensor]) -> dict[str, Tensor]:
    """The bookings of all places together, by account."""
    sums: dict[str, Tensor] = {}
    for (account, _), amount in bookings.items():
        if account in sums:  # the blocks of one model may be on several devices
            amount = sums[account] + amount.to(sums[account].device)
        sums[account] = amount
    return sums
