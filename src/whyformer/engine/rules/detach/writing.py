"""Writing into tensors: relevance goes to what was written and to what was left.

`x[0] = y`, masked_fill, index_add and similar operations are linear in all of their tensors
together. The part of their output that comes from constants is what they return for tracked tensors
of zeros.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.in_place import copy_entries, set_item
from whyformer.engine.rules.operations.names import ADD_INTO, WRITE, Function, RuleTable


def write_part(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The first argument with a part replaced or added to; constants are sinks."""
    output = function(*args, **kwargs)
    if ledger.active and is_tracked(output):
        with torch.no_grad():
            constant = function(*map(_zeros_if_tracked, args), **_zeros_by_name(kwargs))
        if constant.any():
            ledger.book_constant("constant", output, constant)
    written = [x for x in (*args, *kwargs.values()) if is_tracked(x)]
    return tags.copy_tag(written[0] if len(written) == 1 else args[0], output)


def _zeros_if_tracked(value: Any) -> Any:
    return torch.zeros_like(value) if is_tracked(value) else value


def _zeros_by_name(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: _zeros_if_tracked(value) for key, value in kwargs.items()}


def write_into(ledger: Ledger, target: Tensor, value: Tensor) -> None:
    """Overwrite the target with the value; relevance of the target goes to the value.

    The target may be a view: the tensor that it belongs to keeps its other entries.
    """
    ledger.values.save(target)
    whole = target._base
    constant = None
    if whole is not None and not is_tracked(whole) and ledger.active:
        constant = whole.detach().clone()
        constant.as_strided(target.shape, target.stride(), target.storage_offset()).zero_()
    if target.shape != value.shape:
        target.resize_(value.shape)  # a tensor passed as `out`
    target.copy_(value)
    tags.replace_tag(target, value)
    tags.mark_written(target)
    if not is_tracked(value):
        ledger.book_constant("constant", target, value)
    if constant is not None and whole is not None and constant.any():
        ledger.book_constant("constant", whole, constant)


TABLE: RuleTable = dict.fromkeys(WRITE | ADD_INTO | {set_item, copy_entries}, write_part)
