"""Values that the model computes from the token states with gradients off (torch.no_grad).

For the model's own gradient they are constants, and so they are for every rule. Where they choose
(the indices of top-k, a mask) nothing is missed. Where their numbers enter the explained value, the
scores leave out what the tokens do through them, and the user is told.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from whyformer.engine.rules.operations import tensor_tags as tags

_CUT = "_whyformer_cut"  # attribute of a tensor: the part of the model that computed it


class CutValues:
    """Follows such values from where they are computed to where they are used."""

    def __init__(self) -> None:
        self.exist = False
        self.used: dict[str, None] = {}  # the parts whose values entered tracked ones, in order

    def mark(self, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        """Mark the output of an operation that ran on tracked or marked tensors."""
        sources = [*_floating(args), *_floating(kwargs.values())]
        part = next((getattr(one, _CUT) for one in sources if hasattr(one, _CUT)), None)
        if part is None and any(map(_depends_on_tokens, sources)):
            part = _running_part()
        if part is not None:
            self.exist = True
            _mark(part, args, output)

    def follow(self, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        """Note marked values that enter a tracked output; else mark the output too."""
        sources = (*_floating(args), *_floating(kwargs.values()))
        parts = [getattr(one, _CUT) for one in sources if hasattr(one, _CUT)]
        if not parts:
            return
        if any(one.requires_grad for one in _floating((output,))):
            self.used.update(dict.fromkeys(parts))
        else:
            _mark(parts[0], args, output)


def _mark(part: str, args: tuple, output: Any) -> None:
    """Mark what an operation returned, or wrote into (`x[0] = y` returns nothing)."""
    for tensor in _floating(args[:1] if output is None else (output,)):
        setattr(tensor, _CUT, part)


def _depends_on_tokens(tensor: Tensor) -> bool:
    """Whether a tensor is tracked and no parameter."""
    return tensor.requires_grad and (not tensor.is_leaf or tags.is_own_leaf(tensor))


def _floating(values: Any) -> Iterator[Tensor]:
    """The floating tensors among some values, also those in lists."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                yield value
        elif isinstance(value, (tuple, list)):
            yield from _floating(value)


def _running_part() -> str:
    """The class of the module whose code runs now; modules of torch are not the model's own."""
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and not type(owner).__module__.startswith("torch."):
            return type(owner).__name__
        frame = frame.f_back  # type: ignore[assignment]
    return "the model"
