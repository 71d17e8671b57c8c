"""The product of matrices in backward passes of ours, by the faster of torch's two libraries.

On processors of x86, torch multiplies float32 matrices by MKL. On those of AMD that takes twice as
long as by oneDNN, which torch contains too (benchmarks/products.py). The model's own products stay
as they are: its output must not change, not even by rounding.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

# With fewer rows MKL is sometimes the faster one.
_FEWEST_ROWS = 8
_PLAIN = (Tensor, nn.Parameter)


def multiply(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return rows @ matrix, (..., columns) for a matrix (inner, columns)."""
    product = multiply_by_onednn if prefers_onednn(rows, matrix) else torch.matmul
    return product(rows, matrix)


def multiply_by_onednn(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return rows @ matrix by oneDNN, for tensors that `prefers_onednn` said yes to."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(
        rows.contiguous(), matrix.t(), None, "none", (), ""
    )
    return product


def prefers_onednn(rows: Tensor, matrix: Tensor) -> bool:
    """Return whether `multiply` runs these (or tensors like them) by oneDNN."""
    return (
        _is_faster_here()
        and rows.dtype is matrix.dtype is torch.float32
        and type(matrix) in _PLAIN
        and matrix.dim() == 2
        and rows.numel() >= _FEWEST_ROWS * rows.shape[-1] > 0
        and rows.is_cpu
        and matrix.is_cpu
        and (matrix.is_contiguous() or matrix.t().is_contiguous())
        and torch._C._get_mkldnn_enabled()
    )


@functools.cache
def _is_faster_here() -> bool:
    """Whether oneDNN is there, and the processor is one of AMD; older torch does not know."""
    describe = getattr(torch.cpu, "get_capabilities", None)
    return (
        describe is not None
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and str(describe().get("cpu_name", "")).startswith("AMD")
    )
