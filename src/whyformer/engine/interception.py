"""The interception: every torch operation of a forward pass goes through a table of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from whyformer.engine.rules.detach import linear
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import precision
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.composite_ops import python_body
from whyformer.engine.rules.operations.names import (
    ACTIVATION,
    CHOOSE,
    HOMOGENEOUS,
    INERT,
    REARRANGE,
    SOFTMAX,
    VIEWS,
    Function,
    is_in_place,
)
from whyformer.errors import ModelError

HIDDEN = (
    "torch.utils.checkpoint or a custom autograd function computes part of its blocks out of sight,"
    " where no rule can follow. Switch checkpointing off for explanations."
)
_NEVER_HIDDEN = frozenset({*linear.TABLE, *SOFTMAX, F.scaled_dot_product_attention, F.layer_norm})


class Interception(TorchFunctionMode):
    """Runs each operation by its rule.

    Parameters enter as constants, so that within the mode `requires_grad` says exactly one
    thing: this tensor depends on the token states.
    """

    def __init__(
        self,
        table: Mapping[Function, Any],
        ledger: Ledger,
        double: bool = False,
        fallback: Callable[[Function, tuple, dict[str, Any]], Any] | None = None,
    ) -> None:
        """`fallback` runs operations without a rule; by default what they lose is measured."""
        super().__init__()
        narrow = precision.TABLE if double else {}
        self.table: Mapping[Function, Any] = {**narrow, **table}
        self.double = double
        self.ledger = ledger
        self.fallback = fallback

    def __torch_function__(
        self, func: Function, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in INERT:
            return func(*args, **kwargs)
        if func.__name__ == "__get__":
            return self._attribute(func, args)
        args = tuple([self.constant(a) for a in args])  # a list: this runs for every operation
        if kwargs:
            kwargs = {key: self.constant(value) for key, value in kwargs.items()}
            if self.double and func in precision.DTYPE_ARGUMENT:
                kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
        rule = self.table.get(func)
        self._refuse_hidden(func)
        if rule is not None:
            return rule(self.ledger, func, args, kwargs)
        if self.fallback is not None and is_in_place(func, kwargs) and any(map(is_tracked, args)):
            return self._write(func, args, kwargs)
        if func in REARRANGE:
            return tags.copy_tag(args[0] if args else None, func(*args, **kwargs))
        if func in CHOOSE and len(args) > 1:
            return tags.copy_tag(args[1], func(*args, **kwargs))
        if self.fallback is None and (func in HOMOGENEOUS or func in ACTIVATION):
            return func(*args, **kwargs)
        body = python_body(func)
        if body is not None:
            tokens_first = func is F.multi_head_attention_forward
            with self, self.ledger.tokens_first() if tokens_first else nullcontext():
                return body(*args, **kwargs)
        return self._measure(func, args, kwargs)

    def _attribute(self, func: Function, args: tuple) -> Any:
        """An attribute of a tensor; one that is a view of it stays a constant if it was one."""
        if func in VIEWS:
            source = self.constant(args[0])
            return tags.copy_tag(source, func(source))
        return func(*args)

    def constant(self, value: Any) -> Any:
        """The value, detached if it is a parameter or another leaf that is not ours."""
        if isinstance(value, Tensor):
            if value.is_inference():
                return value.detach().clone()  # a model built there; autograd refuses its tensors
            if value.requires_grad and value.is_leaf and not tags.is_own_leaf(value):
                return value.detach()
            if self.fallback is not None and (
                tags.has_tag(value, tags.STALE) or tags.has_tag(value._base, tags.STALE)
            ):
                raise ModelError(
                    "the model goes on using a tensor after an in-place operation on it (such as"
                    " x.add_(y) as a statement of its own), which this method's rules cannot"
                    " follow. Write it as x = x + y, or use 'gae' or 'lrp_ah_ln'."
                )
        elif type(value) in (tuple, list) and value and isinstance(value[0], Tensor):
            return type(value)(self.constant(v) for v in value)
        return value

    def _refuse_hidden(self, func: Function) -> None:
        """Re-computation hides operations from the rules: a map made so would be wrong."""
        if self.ledger.inside and func in _NEVER_HIDDEN and not torch.is_grad_enabled():
            raise ModelError(f"the model runs {func.__name__} with gradients off: {HIDDEN}")

    def _measure(self, func: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The operation as it is; what relevance it loses is booked as a leak under its name."""
        if self.fallback is not None:
            return self.fallback(func, args, kwargs)
        if not self.ledger.active or is_in_place(func, kwargs):
            return func(*args, **kwargs)
        if not any(map(is_tracked, (*args, *kwargs.values()))):
            return func(*args, **kwargs)
        name = func.__name__
        inputs = self.ledger.alias(args)
        output = func(*inputs, **kwargs)
        self.ledger.book_difference(name, inputs, output, leak=True)
        return output

    def _write(self, func: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An in-place operation without a rule, where torch allows it."""
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            raise ModelError(
                f"the model writes into a captured tensor in place ({func.__name__}), which this"
                " method's rules cannot follow. Write it out of place, or use 'gae' or 'lrp_ah_ln'."
            ) from error
