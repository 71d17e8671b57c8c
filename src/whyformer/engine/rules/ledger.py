"""The ledger: relevance that does not reach a token, per sample and by cause.

With some factors detached, the explained value is linear in the token states x and in the
constants c (biases, class tokens, ...): value = sum of x * df/dx + sum of c * df/dc. The ledger
holds the second sum by name (sinks), and the relevance that operations without a rule lose (leaks).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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


class Ledger:
    """Relevance by account, (batch,) each, booked by hooks while the backward pass runs."""

    def __init__(
        self,
        batch: int,
        batch_first: bool = True,
        active: bool = True,
        declared: bool = True,
    ) -> None:
        """Start with empty accounts.

        Args:
            batch: Number of samples.
            batch_first: Whether tensors are (batch, token, ...) and not (token, batch, ...).
            active: Whether to book anything; a method that conserves nothing needs no accounts.
            declared: Whether a family declares that samples come before heads in a joint axis.
        """
        self.batch = batch
        self.declared = declared
        self.batch_first = batch_first
        self.in_torch_attention = False
        self.inside = False  # whether the token states have entered the blocks
        self.active = active
        self.leaks: dict[str, Tensor] = {}
        self.counts: Counter[str] = Counter()  # how often a rule was applied
        self._sinks: dict[str, Tensor] = {}
        self._bias_sinks: list[tuple[str, bool, Tensor]] = []  # account, batch_first, (..., token)

    @property
    def sinks(self) -> dict[str, Tensor]:
        """The sinks that the backward pass has booked so far, (batch,) by account."""
        # A model has many biases: those of the same shape are added up all at once.
        alike: dict[tuple[str, bool, torch.Size], list[Tensor]] = {}
        for account, batch_first, relevance in self._bias_sinks:
            alike.setdefault((account, batch_first, relevance.shape), []).append(relevance)
        for (account, batch_first, _), parts in alike.items():
            total = torch.stack(parts).sum(0).unsqueeze(-1)
            self._add(self._sinks, account, total, batch_first)
        self._bias_sinks.clear()
        return self._sinks

    def count(self, rule: str, times: int = 1) -> None:
        """Count uses of a rule, so that a method can tell whether its rule ever applied."""
        self.counts[rule] += times

    def book_constant(self, account: str, output: Tensor, value: Tensor | float) -> None:
        """Book value * gradient of `output` as a sink; the value is an addend of `output`."""
        if not (self.active and is_tracked(output)):
            return
        batch_first, shape = self.batch_first, output.shape
        constant = wide(value.detach()) if isinstance(value, Tensor) else torch.tensor(value)
        if len(shape) > 1 and constant.shape == shape[-1:]:
            parts = self._bias_sinks
            output.register_hook(
                lambda gradient: parts.append((account, batch_first, wide(gradient) @ constant))
            )
        else:
            output.register_hook(
                lambda gradient: self._add(
                    self._sinks, account, relevance_of(gradient, constant), batch_first
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
        book = self.leaks if leak else self._sinks
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        for sign, tensors in ((1, outputs), (-1, inputs)):
            for tensor in tensors:
                if is_tracked(tensor) and tensor.is_floating_point():
                    self._watch(book, account, tensor, sign, first)

    def _watch(
        self,
        book: dict[str, Tensor],
        account: str,
        tensor: Tensor,
        sign: int,
        batch_first: bool,
    ) -> None:
        value = tensor.detach()
        tensor.register_hook(
            lambda gradient: self._add(
                book, account, sign * relevance_of(gradient, value), batch_first
            )
        )

    def _add(
        self, book: dict[str, Tensor], account: str, relevance: Tensor, batch_first: bool
    ) -> None:
        amount = self.per_sample(relevance, batch_first)
        book[account] = book[account] + amount if account in book else amount

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
