"""Sets of torch functions by kind of operation: sums, products, norms, activations, views, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[..., Any]

_OWNERS = (torch, Tensor, F, torch.special, torch.linalg)


def torch_functions(names: str) -> frozenset[Function]:
    """Every torch function, method, in-place variant and operator with one of these names."""
    return frozenset(_find(names))


def _find(names: str) -> Iterator[Function]:
    for name in names.split():
        for spelling in (name, f"{name}_", f"__{name}__", f"__r{name}__", f"__i{name}__"):
            for owner in _OWNERS:
                found = getattr(owner, spelling, None)
                if callable(found):
                    yield found


ADD = torch_functions("add")
SUBTRACT = torch_functions("sub subtract")
REVERSED_SUBTRACT: frozenset[Function] = frozenset({Tensor.__rsub__, torch.rsub})
MULTIPLY = torch_functions("mul multiply")
REVERSED_DIVIDE: frozenset[Function] = frozenset({Tensor.__rtruediv__, Tensor.__rdiv__})
DIVIDE = torch_functions("div divide true_divide truediv") - REVERSED_DIVIDE
MATMUL = torch_functions("matmul bmm mm mv dot")
SOFTMAX = torch_functions("softmax")
STATISTIC = torch_functions("rsqrt sqrt std var norm vector_norm reciprocal") | REVERSED_DIVIDE

# They rearrange, copy or drop entries, so their own backward already moves relevance correctly.
REARRANGE = torch_functions(
    "view reshape transpose permute t swapaxes swapdims movedim unsqueeze squeeze flatten "
    "unflatten expand expand_as broadcast_to contiguous clone to type type_as float double half "
    "bfloat16 cpu getitem select narrow index_select gather take_along_dim chunk split unbind "
    "tensor_split roll flip repeat repeat_interleave tile view_as reshape_as dropout alpha_dropout "
    "dropout1d dropout2d identity detach alias as_strided diagonal tril triu unfold fold "
    "pixel_shuffle pixel_unshuffle masked_select requires_grad masked_fill pad constant_pad_nd "
    "positive"
)
ADD_UP = torch_functions("sum mean nansum cumsum")
POOLING = torch_functions(
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d"
)
NEGATE = torch_functions("neg negative")
POINTWISE_LINEAR = torch_functions("relu leaky_relu abs")
SELECT_LARGEST = torch_functions(
    "max min amax amin maximum minimum max_pool1d max_pool2d adaptive_max_pool2d sort topk"
)
# Functions of one input that are not linear.
ACTIVATION = torch_functions(
    "gelu silu mish tanh sigmoid hardswish hardsigmoid hardtanh elu selu celu softplus softsign "
    "logsigmoid tanhshrink erf expit pow square relu6 hardshrink softshrink rrelu prelu clamp clip "
    "clamp_min clamp_max nan_to_num threshold"
)
# Activations that serve as gates, in a composite activation (x * sigmoid(x)) or a gated unit.
SQUASHING = torch_functions("tanh sigmoid hardsigmoid erf expit")
NORM = torch_functions("layer_norm rms_norm group_norm batch_norm instance_norm")
JOIN = torch_functions("cat concat concatenate stack hstack vstack")
CHOOSE = torch_functions("where")
# They read a tensor, and their result carries no relevance.
INERT = torch_functions(
    "size dim ndimension numel is_floating_point is_complex stride storage_offset is_contiguous "
    "element_size data_ptr argmax argmin eq ne lt le gt ge isnan isinf isfinite any all item "
    "tolist len bool index new_tensor new_zeros new_ones new_full new_empty zeros_like ones_like "
    "full_like empty_like rand_like randn_like get_device equal allclose nonzero hash repr format "
    "is_same_size register_hook retain_grad ne sign numpy iter"
)
# Getters of attributes that are views: `x.T` calls `Tensor.T.__get__`.
VIEWS = frozenset(getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "data", "real"))
HOMOGENEOUS = (
    ADD_UP
    | POOLING
    | NEGATE
    | POINTWISE_LINEAR
    | SELECT_LARGEST
    | MATMUL
    | torch_functions("einsum")
)


def is_in_place(function: Function, kwargs: dict[str, Any] | None = None) -> bool:
    """Whether the call overwrites its first argument."""
    name = function.__name__
    by_name = name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))
    return by_name or name == "__setitem__" or bool(kwargs and kwargs.get("inplace"))
