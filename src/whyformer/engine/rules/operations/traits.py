"""What the name of a torch function says about it, looked up once per function.

The interception asks this for every operation of a model: one lookup instead of a dozen.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.operations.in_place import is_named_in_place, position_of_inplace
from whyformer.engine.rules.operations.names import (
    ACTIVATION,
    ADD_UP,
    CHOOSE,
    DIVIDE,
    EXPONENTIAL,
    HOMOGENEOUS,
    INERT,
    LAYOUT,
    MATMUL,
    REARRANGE,
    SELECT_LARGEST,
    VIEWS,
    WRITE,
    Function,
)

# Offloaded weights are moved to their device and back while the model runs, without gradients.
_MOVES = frozenset({Tensor.to, Tensor.cpu, Tensor.cuda})
_MIX_HEADS = frozenset({F.linear, F.conv2d})


@dataclass(frozen=True, slots=True)
class Traits:
    """The sets of `names` that a function is in, and whether it may overwrite a tensor.

    Attributes:
        reads: It reads a shape, a dtype, ...: its result carries no relevance.
        getter: It is the getter of an attribute that is a view.
        layout: It only changes the shape of its first argument, and reads no other tensor.
        drops: It drops entries in training, and does nothing else.
        moves: It moves a tensor to another device.
        mixes_heads: It may mix the heads of attention maps.
        in_place: Its name says that it overwrites its first argument.
        inplace_position: The place of its argument `inplace`, if it has one.
    """

    reads: bool
    getter: bool
    layout: bool
    drops: bool
    moves: bool
    mixes_heads: bool
    exponential: bool
    matmul: bool
    divides: bool
    rearranges: bool
    chooses: bool
    selects_largest: bool
    adds_up: bool
    homogeneous: bool
    activation: bool
    in_place: bool
    inplace_position: int | None


@functools.lru_cache(maxsize=4096)
def traits_of(function: Function) -> Traits:
    """Return what is known about a function."""
    getter = function in VIEWS
    in_place = is_named_in_place(function)
    return Traits(
        reads=function in INERT or (function.__name__ == "__get__" and not getter),
        getter=getter,
        layout=function in LAYOUT and not in_place,
        drops=function is F.dropout,
        moves=function in _MOVES,
        mixes_heads=function in _MIX_HEADS,
        exponential=function in EXPONENTIAL,
        matmul=function in MATMUL,
        divides=function in DIVIDE,
        rearranges=function in REARRANGE or function in WRITE,
        chooses=function in CHOOSE,
        selects_largest=function in SELECT_LARGEST,
        adds_up=function in ADD_UP,
        homogeneous=function in HOMOGENEOUS,
        activation=function in ACTIVATION,
        in_place=in_place,
        inplace_position=position_of_inplace(function),
    )
