"""Rules that pass every attention map to a function, for methods that read the maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.arguments import einsum_operands
from whyformer.engine.rules.operations.fused_attention import FusedCall, attention_weights
from whyformer.engine.rules.operations.names import MATMUL, SOFTMAX, Function, RuleTable

# record(attention) -> the attention map that the model uses in its place
Record = Callable[[Tensor], Tensor]
# hold(call, run) -> run(call) if the attention stays fused, None if its map must be recorded
Hold = Callable[[FusedCall, Callable[[FusedCall], Tensor]], Tensor | None]


def recording_table(record: Record, hold: Hold) -> RuleTable:
    """{operation: rule}: every map goes through `record`, unless `hold` keeps the call fused."""

    def fused(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        call = FusedCall(*args, **kwargs)
        output = hold(call, lambda plain: function(**plain._asdict()))
        return unfused_attention(call, record) if output is None else output

    def matmul(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        if args and tags.has_tag(args[0], tags.ATTENTION):
            args = (record(args[0]), *args[1:])
        return function(*args, **kwargs)

    def einsum(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        equation, operands = einsum_operands(args)
        return function(
            equation,
            *(record(o) if tags.has_tag(o, tags.ATTENTION) else o for o in operands),
        )

    return {
        F.scaled_dot_product_attention: fused,
        **dict.fromkeys(SOFTMAX, tag_softmax),
        **dict.fromkeys(MATMUL, matmul),
        torch.einsum: einsum,
    }


def unfused_attention(
    call: FusedCall,
    record: Record,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
    **operations: Any,
) -> Tensor:
    """The output of fused attention, computed by way of a recorded map."""
    attention, value = attention_weights(call, multiply, **operations)
    return multiply(record(attention), value)


def tag_softmax(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """softmax(x), tagged as a possible attention map; relevance that it loses is a leak."""
    (x,) = ledger.alias(args[:1])
    output = function(x, *args[1:], **kwargs)
    ledger.book_difference("softmax", (x,), output, leak=True, batch_first=True)
    return tags.add_tag(output, tags.ATTENTION)
