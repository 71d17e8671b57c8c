"""Sets of torch functions by kind of operation: sums, products, norms, activations, views, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[..., Any]
RuleTable = Mapping[Function, Any]  # {torch function: rule}

_OWNERS = (torch, Tensor, F, torch.special, torch.linalg, torch.fft)


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
# `__rmatmul__` has another order of arguments; composite_ops writes it as torch.matmul.
MATMUL = torch_functions("matmul bmm mm mv dot") - {Tensor.__rmatmul__}
SOFTMAX = torch_functions("softmax")
STATISTIC = (
    torch_functions("rsqrt sqrt std var std_mean var_mean norm vector_norm reciprocal")
    | REVERSED_DIVIDE
)
POWER = torch_functions("pow float_power") - {Tensor.__rpow__}
EXPONENTIAL = torch_functions("exp")

# They change the layout of their first argument; the others are shapes, axes and sizes.
LAYOUT = torch_functions(
    "view reshape transpose permute t swapaxes swapdims movedim unsqueeze squeeze flatten "
    "unflatten expand contiguous chunk split unbind"
)
# They rearrange, copy or drop entries, so their own backward already moves relevance correctly.
REARRANGE = LAYOUT | torch_functions(
    "expand_as broadcast_to clone to type type_as float double half bfloat16 cpu getitem select "
    "narrow index_select gather take_along_dim tensor_split roll flip repeat repeat_interleave "
    "tile view_as reshape_as dropout alpha_dropout dropout1d dropout2d identity detach alias "
    "as_strided diagonal tril triu unfold fold pixel_shuffle pixel_unshuffle masked_select "
    "requires_grad positive view_as_complex view_as_real resolve_conj resolve_neg"
)
# Linear in their one input: each entry of the output is a weighted sum.
RESAMPLE = torch_functions("fold interpolate")
CONVOLUTION = torch_functions(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
)
# A product of matrices for each expert of a mixture.
GROUPED = torch_functions("grouped_mm _grouped_mm")
# They replace a part of their first argument.
WRITE = torch_functions(
    "masked_fill masked_scatter index_put index_copy index_fill scatter slice_scatter "
    "select_scatter diagonal_scatter as_strided_scatter pad constant_pad_nd fill fill_diagonal"
)
# They add to a part of their first argument.
ADD_INTO = torch_functions("index_add scatter_add")
ADD_UP = torch_functions("sum mean nansum cumsum")
POOLING = torch_functions(
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d"
)
NEGATE = torch_functions("neg negative")
FOURIER = torch_functions(
    "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft fftshift "
    "ifftshift real imag view_as_real view_as_complex"
)
POINTWISE_LINEAR = torch_functions("relu leaky_relu abs")
SELECT_LARGEST = torch_functions(
    "max min amax amin maximum minimum max_pool1d max_pool2d adaptive_max_pool2d sort topk"
)
# Functions of one input that are not linear.
ACTIVATION = torch_functions(
    "gelu silu mish tanh sigmoid hardswish hardsigmoid hardtanh elu selu celu softplus softsign "
    "logsigmoid tanhshrink erf expit pow square relu6 hardshrink softshrink rrelu prelu clamp clip "
    "clamp_min clamp_max nan_to_num threshold expm1"
)
# Activations that serve as gates, in a composite activation (x * sigmoid(x)) or a gated unit.
SQUASHING = torch_functions("tanh sigmoid hardsigmoid erf expit")
NORM = torch_functions("layer_norm rms_norm group_norm batch_norm instance_norm")
JOIN = torch_functions("cat concat concatenate stack hstack vstack")
# `x.where(mask, y)` has another order of arguments; composite_ops writes it as torch.where.
CHOOSE: frozenset[Function] = frozenset({torch.where})
# They read a tensor, and their result carries no relevance.
INERT = torch_functions(
    "size dim ndimension numel is_floating_point is_complex stride storage_offset is_contiguous "
    "element_size data_ptr argmax argmin eq ne lt le gt ge isnan isinf isfinite any all item "
    "tolist len bool index new_tensor new_zeros new_ones new_full new_empty zeros_like ones_like "
    "full_like empty_like rand_like randn_like get_device equal allclose nonzero hash repr format "
    "is_same_size register_hook retain_grad ne sign numpy _assert"
)
# Getters of attributes that are views: `x.T` calls `Tensor.T.__get__`.
VIEWS = frozenset(
    getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "data", "real", "imag")
)
HOMOGENEOUS = (
    ADD_UP
    | POOLING
    | NEGATE
    | FOURIER
    | POINTWISE_LINEAR
    | SELECT_LARGEST
    | MATMUL
    | torch_functions("einsum")
)
