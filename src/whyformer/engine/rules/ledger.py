"""The ledger: relevance that does not reach a token, per sample and by cause.

With some factors detached, the explained value is linear in the token states x and in the
constants c (biases, class tokens, ...): value = sum of x * df/dx + sum of c * df/dc. The ledger
holds the second sum by name (sinks), and the relevance that operations without a rule lose (leaks).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whyformer.engine.rules.operations.stabilise import wide
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
        self._sinks: dict[Booking, Tensor] = {}
        self._bias_sinks: list[tuple[Booking, bool, Tensor]] = []  # batch_first, (..., token)

    @property
    def sinks_by_place(self) -> dict[Booking, Tensor]:
        """The sinks that the backward pass has booked so far, (batch,) by account and block."""
        # A model has many biases: those of the same shape are added up all at once.
        alike: dict[tuple[Booking, bool, torch.Size], list[Tensor]] = {}
        for booking, batch_first, relevance in self._bias_sinks:
            alike.setdefault((booking, batch_first, relevance.shape), []).append(relevance)
        for (booking, batch_first, _), parts in alike.items():
            total = torch.stack(parts).sum(0).unsqueeze(-1)
            self._add(self._sinks, booking, total, batch_first)
        self._bias_sinks.clear()
        return self._sinks

    @property
    def sinks(self) -> dict[str, Tensor]:
        """Relevance that went to constants, (batch,) by account."""
        return sum_by_account(self.sinks_by_place)

    @property
    def leaks(self) -> dict[str, Tensor]:
        """Relevance lost in operations without a rule, (batch,) by operation."""
        return sum_by_account(self.leaks_by_place)

    def count(self, rule: str, times: int = 1) -> None:
        """Count uses of a rule, so that a method can tell whether its rule ever applied."""
        self.counts[rule] += times

    def book_constant(self, account: str, output: Tensor, value: Tensor | float) -> None:
        """Book value * gradient of `output` as a sink; the value is an addend of `output`."""
        if not (self.active and is_tracked(output)):
            return
        batch_first, booking, shape = self.batch_first, (account, self.place), output.shape
        constant = wide(value.detach()) if isinstance(value, Tensor) else torch.tensor(value)
        if len(shape) > 1 and constant.shape == shape[-1:]:
            parts = self._bias_sinks
            output.register_hook(
                lambda gradient: parts.append((booking, batch_first, wide(gradient) @ constant))
            )
        else:
            output.register_hook(
                lambda gradient: self._add(
                    self._sinks, booking, relevance_of(gradient, constant), batch_first
                )
            )

    def alias(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs; tracked ones as views, so that their gradient is that of one operation."""
        return [x.view_as(x) if is_tracked(x) and self.active else x for x in inputs]

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
        value, booking = tensor.detach(), (account, self.place)
        tensor.register_hook(
            lambda gradient: self._add(
                book, booking, sign * relevance_of(gradient, value), batch_first
            )
        )

    def _add(
        self, book: dict[Booking, Tensor], booking: Booking, relevance: Tensor, batch_first: bool
    ) -> None:
        place = booking[1]
        amount = None
        if self.per_token and place is not None and book is self._sinks:
            amount = self._each_token(relevance, batch_first, place.tokens)
        if amount is None:
            amount = self.per_sample(relevance, batch_first)
        else:
            book = self.token_sinks
        book[booking] = book[booking] + amount if booking in book else amount

    def _each_token(self, relevance: Tensor, batch_first: bool, tokens: int) -> Tensor | None:
        """The sum over all axes but samples and tokens, (batch, tokens); None if there are none."""
        if batch_first and relevance.shape[:2] == (self.batch, tokens):
            return relevance.flatten(2).sum(2) if relevance.dim() > 2 else relevance
        if not batch_first and relevance.shape[:2] == (tokens, self.batch):
            return relevance.transpose(0, 1).reshape(self.batch, tokens, -1).sum(2)
        if batch_first and relevance.dim() == 2 and len(relevance) == self.batch * tokens:
            return relevance.reshape(self.batch, tokens, -1).sum(2)
        return None

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
        batch = self.batch
        if batch == 1:
            return relevance.sum().reshape(1)
        if not batch_first and relevance.dim() == 3 and relevance.shape[1] == batch:
            return relevance.sum(dim=(0, 2))
        if relevance.dim() and relevance.shape[0] == batch:
            return relevance.flatten(1).sum(1) if relevance.dim() > 1 else relevance
        if relevance.dim() and relevance.shape[0] % batch == 0:
            # Samples and tokens in one axis, as in a flattened linear layer.
            if batch_first:
                return relevance.reshape(batch, -1).sum(1)
            return relevance.reshape(-1, batch, relevance[0].numel()).sum(dim=(0, 2))
        raise ModelError(
            f"cannot tell the {batch} samples apart in a tensor of shape {tuple(relevance.shape)}",
            argument="inputs",
            remedy="Explain one sample at a time",
        )

    def spread(self, relevance: Tensor, batch_first: bool = True) -> Tensor:
        """The sums per sample in a shape that broadcasts with the tensor."""
        batch, shape = self.batch, relevance.shape
        if batch == 1:
            return relevance.sum()
        amounts = self.per_sample(relevance, batch_first)
        if not batch_first and relevance.dim() == 3 and shape[1] == batch:
            return amounts.reshape(1, batch, 1)
        if shape[0] != batch:  # samples and tokens, or samples and heads, in one axis
            amounts = (
                amounts.repeat_interleave(shape[0] // batch)
                if batch_first
                else amounts.repeat(shape[0] // batch)
            )
        return amounts.reshape(-1, *[1] * (relevance.dim() - 1))


def sum_by_account(bookings: Mapping[Booking, Tensor]) -> dict[str, Tensor]:
    """The bookings of all places together, by account."""
    sums: dict[str, Tensor] = {}
    for (account, _), amount in bookings.items():
        sums[account] = sums[account] + amount if account in sums else amount
    return sums
