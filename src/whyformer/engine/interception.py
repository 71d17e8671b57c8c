"""The interception: a torch function mode that runs every operation by a table of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from whyformer.engine.custom_functions import runs_closed_function
from whyformer.engine.hidden import hidden_operation
from whyformer.engine.rules.detach import linear, writing
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import precision
from whyformer.engine.rules.operations import spelled_softmax as spelled
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.arguments import put_in_order
from whyformer.engine.rules.operations.batch_norm import plain_batch_norm
from whyformer.engine.rules.operations.composite_ops import python_body
from whyformer.engine.rules.operations.in_place import out_of_place
from whyformer.engine.rules.operations.linear_layer import plain_addmm, plain_linear
from whyformer.engine.rules.operations.names import ADD_INTO, REARRANGE, SOFTMAX, WRITE, Function
from whyformer.engine.rules.operations.traits import Traits, traits_of
from whyformer.errors import ModelError, UnsuitableMethodError
from whyformer.models.plain_execution import ignore_autocast
from whyformer.models.quantized import dequantise, is_quantised

HIDDEN = (
    "torch.utils.checkpoint or a custom autograd function runs part of its blocks where no rule can"
    " see it"
)
_PLAIN = frozenset({Tensor, nn.Parameter})
# Arguments of these types are no tensors and hold none.
_ATOMS = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.Size})
# In-place calls whose own backward moves relevance correctly.
_WRITE = WRITE | REARRANGE | {Tensor.__setitem__, Tensor.copy_, Tensor.zero_}
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
        device: str = "cpu",
        own: Mapping[Function, Any] | None = None,
    ) -> None:
        """Start with a table of rules.

        Args:
            table: {torch function: rule(ledger, function, args, kwargs)}.
            ledger: Where sinks and leaks are booked.
            double: Whether the model computes in float64; casts to float32 then stay float64.
            fallback: Runs operations without a rule. By default the relevance that they lose is
                measured.
            device: The type of the model's device.
            own: The rules of the model's family. They come first, also for in-place calls.
        """
        super().__init__()
        self.plain: Mapping[Function, Any] = {
            F.linear: plain_linear,
            torch.addmm: plain_addmm,
            F.batch_norm: plain_batch_norm,
            **(precision.TABLE if double else {}),
        }
        self.own = own or {}
        self.table: Mapping[Function, Any] = {
            **self.plain,
            **table,
            **self.own,
        }
        self.double = double
        self.ledger = ledger
        self.fallback = fallback
        self.device = device
        self.watches_hidden = ledger.active or fallback is not None

    def __torch_function__(
        self, func: Function, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        traits = traits_of(func)
        if kwargs and self.double and func in precision.DTYPE_ARGUMENT:
            kwargs = precision.keep_double_dtype(kwargs)
        if traits.reads:
            return func(*args, **kwargs)
        if traits.layout and self._only_moves(func, args):
            # Every second operation of a model: what `_run` would do, without looking for more.
            return tags.hand_on(args[0], func(*args, **kwargs))
        if traits.drops and kwargs.get("training") is False and self._only_moves(func, args):
            return args[0]  # as torch does
        if traits.moves and not torch.is_grad_enabled():
            # A parameter that is only moved stays a parameter.
            return self._run_without_gradients(func, args, kwargs)
        output = self._run(func, traits, types, args, kwargs)
        if traits.mixes_heads and tags.has_tag(args[0] if args else None, tags.ATTENTION):
            _keep_map(args[0], output)
        if traits.exponential:
            spelled.note_exponent(output, args[0] if args else None)
        if self.watches_hidden:
            tags.mark_seen(output)
        if self.ledger.cut.exist:
            self.ledger.cut.follow(args, kwargs, output)
        return output

    def _only_moves(self, func: Function, args: tuple) -> bool:
        """Whether an operation on layout has nothing to look at but a tensor of known origin."""
        return (
            self.fallback is None
            and bool(args)
            and tags.is_marked(args[0])
            and func not in self.table
            and not self.ledger.cut.exist
            and torch.is_grad_enabled()
        )

    def _run(
        self, func: Function, traits: Traits, types: Any, args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        """Run an operation by its rule, by its parts, or as it is."""
        if traits.getter:
            source = self.constant(args[0])  # a view of a constant stays a constant
            return tags.copy_tag(source, func(source))
        ignore_autocast(self.device)
        # This runs often: a list is faster, and so is a look at the type.
        args = tuple([a if type(a) in _ATOMS else self.constant(a) for a in args])
        if kwargs:
            kwargs = {key: self.constant(value) for key, value in kwargs.items()}
        if self.double and func in precision.INTO_ONE_PRECISION:
            args = precision.match_target(args)
        if self.ledger.inside and not torch.is_grad_enabled():
            return self._run_without_gradients(func, args, kwargs)
        overwrites = _overwrites(traits, args, kwargs) and func not in self.own
        if overwrites and _any_tracked(args, kwargs):
            return self._overwrite(func, types, args, kwargs)
        if self.double and func in precision.ONE_PRECISION:
            args, kwargs = precision.widen_mixed(args, kwargs)
        rule = self.table.get(func)
        if kwargs and (rule is not None or traits.matmul or traits.divides):
            args, kwargs = put_in_order(func, args, kwargs)
        if traits.matmul and spelled.has_map_on_the_right(args):
            with self:
                return spelled.multiply_transposed(*args[:2])
        if traits.divides and (found := spelled.find_softmax(*args[:2])) is not None:
            with self:
                return torch.softmax(*found)
        if rule is not None:
            return rule(self.ledger, func, args, kwargs)
        if traits.rearranges:
            return tags.copy_tag(args[0] if args else None, func(*args, **kwargs))
        if traits.chooses and len(args) > 1:
            return tags.copy_tag(args[1], func(*args, **kwargs))
        if traits.selects_largest and self.fallback is None:
            return tags.copy_tag_to_values(args[0] if args else None, func(*args, **kwargs))
        if self.fallback is None and traits.adds_up:
            return tags.tag_sum(args[:1] or (None,), func(*args, **kwargs))
        if self.fallback is None and traits.homogeneous:
            return func(*args, **kwargs)
        if self.fallback is None and traits.activation:
            self.ledger.keeps_sum = False  # the method's choice: activations follow the gradient
            return func(*args, **kwargs)
        body = python_body(func)
        if body is not None:
            tokens_first = func is F.multi_head_attention_forward
            with self, self.ledger.tokens_first() if tokens_first else nullcontext():
                return body(*args, **kwargs)
        return self._measure(func, args, kwargs)

    def constant(self, value: Any) -> Any:
        """Return the value, detached if it is a leaf that we did not make (a parameter).

        A quantised weight comes back as the floats that it stands for.
        """
        if isinstance(value, Tensor):
            if type(value) not in _PLAIN and is_quantised(value):
                return dequantise(value)
            if value.requires_grad:
                if value.is_leaf:
                    if not tags.is_own_leaf(value):
                        return value.detach().clone() if value.is_inference() else value.detach()
                elif self.watches_hidden and not tags.is_seen(value):
                    self._note_hidden(value)
            elif value.is_inference():
                return value.clone()  # autograd refuses tensors made in inference mode
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

    def _run_without_gradients(self, func: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation that the model runs with gradients off: its output is a constant."""
        if func in _NEVER_HIDDEN and runs_closed_function():
            raise _hidden(func)
        rule = self.plain.get(func)
        output = rule(self.ledger, func, args, kwargs) if rule else func(*args, **kwargs)
        self.ledger.cut.mark(args, kwargs, output)
        return output

    def _note_hidden(self, tensor: Tensor) -> None:
        """Note the operation behind a tensor that was computed where no rule can see it."""
        tags.mark_seen(tensor)
        name = hidden_operation(tensor)
        if self.fallback is None:
            self.ledger.note_hidden(name)
            return
        raise UnsuitableMethodError(
            f"the model computes with {name}, which this method's rules cannot follow",
            unavailable="relevance",
            remedy="Write it with torch functions in Python",
        )

    def _measure(self, func: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation without a rule; book the relevance that it loses under its name."""
        if self.fallback is not None:
            return self.fallback(func, args, kwargs)
        return self.ledger.measure(func, args, kwargs)

    def _overwrite(self, func: Function, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an in-place call by the rule of its twin, and write the result into its target."""
        twin = out_of_place(func, args, kwargs)
        if twin is None or (self.fallback is not None and func in _WRITE):
            return self._run_in_place(func, args, kwargs)
        # Models add the outputs of experts up in place and then read the sum: it has to be there.
        if self.fallback is not None and func not in ADD_INTO:
            result = self.__torch_function__(twin.function, types, twin.args, twin.kwargs)
            for target in twin.targets:
                tags.tag_stale(target)
            return result
        # The rule reads a copy: torch refuses a backward pass that needs an overwritten tensor.
        read = [_copy(a) if a is twin.targets[0] else a for a in twin.args]
        result = self.__torch_function__(twin.function, types, tuple(read), twin.kwargs)
        results = (result,) if isinstance(result, Tensor) else tuple(result)
        for target, new in zip(twin.targets, results, strict=True):
            writing.write_into(self.ledger, target, new)
        if func is Tensor.__setitem__:
            return None
        return twin.targets[0] if isinstance(result, Tensor) else type(result)(twin.targets)

    def _run_in_place(self, func: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an in-place operation as torch does; raise if torch refuses it."""
        try:
            output = func(*args, **kwargs)
            tags.mark_written(args[0])
            return output
        except RuntimeError as error:
            raise UnsuitableMethodError(
                f"the model changes a tracked tensor in place ({func.__name__}), and this method's"
                " rules cannot follow",
                unavailable="relevance",
                remedy="Write it out of place",
            ) from error


def _copy(tensor: Tensor) -> Tensor:
    """A copy with the same tag."""
    copied = tags.copy_tag(tensor, tensor.clone())
    tags.mark_seen(copied)
    return copied


def _keep_map(attention: Tensor, output: Tensor) -> None:
    """Tag the output as attention if a layer mixed the heads of attention maps (talking heads)."""
    if isinstance(output, Tensor) and output.shape == attention.shape:
        tags.copy_tag(attention, output)


def _overwrites(traits: Traits, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a call overwrites its first argument, or the tensors passed as `out`."""
    if traits.in_place:
        return True
    if kwargs and (kwargs.get("inplace") or kwargs.get("out") is not None):
        return True
    position = traits.inplace_position
    return position is not None and len(args) > position and bool(args[position])


def _any_tracked(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a tracked tensor is among the arguments, or in a list among them."""
    for value in (*args, *kwargs.values()):
        if is_tracked(value) or (type(value) in (tuple, list) and any(map(is_tracked, value))):
            return True
    return False


def _hidden(func: Function) -> ModelError:
    """The error for a block inside a custom function: the rules would miss its graph."""
    return ModelError(
        f"the model runs {func.__name__} inside a custom autograd function: {HIDDEN}",
        argument="model",
        remedy="Switch gradient checkpointing off for explanations",
    )
