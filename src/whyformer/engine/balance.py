"""The balance of each sample: booked again, one sample at a time, if samples were mixed up.

The ledger tells samples apart by the order of axes. A model may put its rows into another order (a
mixture of experts sorts tokens by expert), or compute each sample alone. Then one sample is charged
for another: the balance of the batch is right, and those of its samples are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from whyformer.engine.backward import gradients_at
from whyformer.engine.rules.ledger import Ledger


def book_again_if_mixed_up(
    ledger: Ledger, value: Tensor, states: Sequence[Tensor], scores: Iterable[Tensor]
) -> None:
    """Run a backward pass for each sample alone if the balance of a sample is off.

    The graph must still be there. `value` is (batch,), `states` are where the passes end, and
    `scores` are (batch, tokens).
    """
    if not ledger.may_mix_up:
        return
    found = tuple(scores)
    off = ledger.keeps_sum and is_off(ledger.missing(value, found), value, found, states[0].dtype)
    if not (off or ledger.mixed_up):
        return
    ledger.clear()
    for sample in range(ledger.batch):
        with ledger.only_sample(sample):
            gradients_at(value[sample], {"states": states}, keep_graph=True)


def is_off(missing: Tensor, value: Tensor, scores: Iterable[Tensor], dtype: torch.dtype) -> bool:
    """Return whether more is missing in a sample, (batch,), than rounding in `dtype` explains."""
    sizes = [one.abs().sum(1).tolist() for one in (value.detach().unsqueeze(1), *scores)]
    share = torch.finfo(dtype).eps ** 0.5
    samples = zip(missing.tolist(), *sizes, strict=True)
    return any(abs(amount) > share * sum(mass) for amount, *mass in samples)
