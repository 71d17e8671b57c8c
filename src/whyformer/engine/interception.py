"""The interception: a torch function mode that runs every operation by a table of rules."""

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
from whyformer.errors import ModelError, UnsuitableMethodError

HIDDEN = (
    "torch.utils.checkpoint or a custom autograd function runs part of its blocks where no rule can"
    " see it"
)
_NEVER_HIDDEN = frozenset({*linear.TABLE, *SOFTMAX, F.scaled_dot_product_attention, F.layer_norm})


class Interception(TorchFunctionMode):
    """Runs each torch operation by its rule.

    Parameters are detached, so that within the mode `requires_grad` means one thing: this tensor
    depends on the token states.
    """

    def __init__(
        self,
        table: Mapping[Function, Any],
        ledger: Ledger,
        double: bool = False,
        fallback: Callable[[Function, tuple, dict[str, Any]], Any] | None = None,
    ) -> None:
        """Start with a table of rules.

        Args:
            table: {torch function: rule(ledger, function, args, kwargs)}.
            ledger: Where sinks and leaks are booked.
            double: Whether the model computes in float64; casts to float32 then stay float64.
            fallback: Runs operations without a rule. By default the relevance that they lose is
                measured.
        """
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
            return self._get_attribute(func, args)
        args = tuple([self.constant(a) for a in args])  # a list is faster, and this runs often
        if kwargs:
            kwargs = {key: self.constant(value) for key, value in kwargs.items()}
            if self.double and func in precision.DTYPE_ARGUMENT:
                kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
        if func in _NEVER_HIDDEN and self.ledger.inside and not torch.is_grad_enabled():
            raise _hidden(func)
        rule = self.table.get(func)
        if rule is not None:
            return rule(self.ledger, func, args, kwargs)
        if self.fallback is not None and is_in_place(func, kwargs) and any(map(is_tracked, args)):
            return self._run_in_place(func, args, kwargs)
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

    def _get_attribute(self, func: Function, args: tuple) -> Any:
        """An attribute of a tensor; a view of a constant stays a constant."""
        if func in VIEWS:
            source = self.constant(args[0])
            return tags.copy_tag(source, func(source))
        return func(*args)

    def constant(self, value: Any) -> Any:
        """Return the value, detached if it is a leaf that we did not make (a parameter)."""
        if isinstance(value, Tensor):
            if value.is_inference():
                return value.detach().clone()  # autograd refuses tensors made in inference mode
            if value.requires_grad and value.is_leaf and not tags.is_own_leaf(value):
                return value.detach()
            if self.fallback is not None and (
                tags.has_tag(value, tags.STALE) or tags.has_tag(value._base, tags.STALE)
            ):
                raise UnsuitableMethodError(
                    "the model uses a tensor again after an in-place operation on it (such as"
                    " x.add_(y)), which this method's rules cannot follow",
                    unavailable="relevance",
                    remedy="Write it as x = x + y",
                )
        elif type(value) in (tuple, list) and value and isinstance(value[0], Tensor):
            return type(value)(self.constant(v) for v in value)
        return value

    def _measure(self, func: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation without a rule; book the relevance that it loses under its name."""
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

    def _run_in_place(self, func: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an in-place operation without a rule; raise if torch refuses it."""
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            raise UnsuitableMethodError(
                f"the model changes a tracked tensor in place ({func.__name__}), and this method's"
                " rules cannot follow",
                unavailable="relevance",
                remedy="Write it out of place",
            ) from error


def _hidden(func: Function) -> ModelError:
    """The error for a block that runs with gradients off: the rules would miss its graph."""
    return ModelError(
        f"the model runs {func.__name__} with gradients off: {HIDDEN}",
        argument="model",
        remedy="Switch gradient checkpointing off for explanations",
    )
