"""Which arguments of forward a tensor was computed from: sets of bits that operations pass on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_ORIGIN = "_whyformer_origin"  # attribute of a tensor: bits of what it was computed from
# Operations that read the shape or dtype of their other arguments, and no values.
_SHAPED_LIKE = frozenset(
    {
        torch.zeros_like,
        torch.ones_like,
        torch.empty_like,
        torch.full_like,
        torch.rand_like,
        torch.randn_like,
        Tensor.new_zeros,
        Tensor.new_ones,
        Tensor.new_empty,
        Tensor.new_full,
        Tensor.new_tensor,
    }
)
_FIRST_ONLY = frozenset({Tensor.type_as, Tensor.expand_as, Tensor.view_as, Tensor.reshape_as})


def origin_of(value: Any) -> int:
    """Return the bits of what a tensor was computed from."""
    return getattr(value, _ORIGIN, 0)


def set_origin(value: Tensor, bits: int) -> None:
    """Set the bits of what a tensor was computed from."""
    setattr(value, _ORIGIN, bits)


class Origins(TorchFunctionMode):
    """Passes on the bits of the tensors that an operation reads to what it returns.

    Truth values lose them: a mask depends on the ids only by which of them are padding.

    Args:
        tracked: The bits that stand for token states. What depends on these forgets the others.
        meets: Called where an operation reads token states and, beside them, floating numbers with
            other bits: these bits.
    """

    def __init__(self, tracked: int = 0, meets: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._tracked, self._meets = tracked, meets

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        if func in _SHAPED_LIKE:
            return output
        read = [*_tensors(args[:1] if func in _FIRST_ONLY else (args, kwargs))]
        bits = 0
        for one in read:
            bits |= origin_of(one)
        if bits:
            self._pass_on(func, args, output, read, bits)
        return output

    def _pass_on(self, func: Any, args: tuple, output: Any, read: list[Tensor], bits: int) -> None:
        states = bits & self._tracked
        if states:
            beside = 0
            for one in read:
                if one.is_floating_point() and not origin_of(one) & self._tracked:
                    beside |= origin_of(one)
            if beside and self._meets is not None and _has_floating(output):
                self._meets(beside)
            bits = states
        written = args[:1] if func is Tensor.__setitem__ else output
        for one in _tensors(written):
            if one.dtype == torch.bool:
                continue
            set_origin(one, bits)
            if one._base is not None and func.__name__.endswith("_"):  # written into a view
                set_origin(one._base, origin_of(one._base) | bits)


def _tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples and mappings."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)


def _has_floating(output: Any) -> bool:
    return output is None or any(one.is_floating_point() for one in _tensors(output))
