"""|w| of the weights that come back in call after call, kept as long as the weights live.

The relevance rule of a linear layer multiplies by |w|. To work it out anew for every explanation
costs as much memory traffic as the weights have, a twentieth of the time. It is kept from the
second time on that the same weight is met, so a single explanation takes no memory for it.

It is found by the weight's memory itself, weakly: it goes when that goes, and no copy or file of
the model carries it. Two signs tell that a weight was changed: the version that torch counts with
every write that it sees, and for writes that it does not (`w.data[5] = 0`, NumPy) the weight's
product with a fixed random vector, which reads every number and costs half of what it saves.
"""

from __future__ import annotations

import threading
import weakref
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

LIMIT = 2**30  # bytes, of all models together; what does not fit is worked out every time
SMALLEST = 2**16  # numbers; of fewer, |w| costs no more than to look it up


class _Sighting(NamedTuple):
    version: int
    imprint: Tensor
    magnitude: Tensor | None


class Magnitudes:
    """|w| by weight, up to `limit` bytes of them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._seen: weakref.WeakKeyDictionary[torch.UntypedStorage, dict[Any, _Sighting]] = (
            weakref.WeakKeyDictionary()
        )
        self._guard = threading.Lock()

    def of(self, w: Tensor) -> Tensor | None:
        """|w| if it is kept, or is kept from now on; else None."""
        if not _is_kept_kind(w):
            return None
        # The offset, shape and so on: several weights may be views of one memory (q, k and v).
        view = (w.storage_offset(), w.shape, w.stride(), w.dtype)
        imprint = w.detach() @ _vector(w.shape[1], w.dtype)
        with self._guard:
            views = self._seen.setdefault(w.untyped_storage(), {})
            known = views.get(view)
            if (
                known is None
                or known.version != w._version
                or not torch.equal(known.imprint, imprint)
            ):
                views[view] = _Sighting(w._version, imprint, None)
                return None
            if known.magnitude is None and self._size() + w.nbytes <= self.limit:
                known = views[view] = known._replace(magnitude=w.detach().abs())
            return known.magnitude

    def size(self) -> int:
        """How many bytes are kept."""
        with self._guard:
            return self._size()

    def _size(self) -> int:
        kept = (one.magnitude for views in self._seen.values() for one in views.values())
        return sum(magnitude.nbytes for magnitude in kept if magnitude is not None)


@cache
def _vector(count: int, dtype: torch.dtype) -> Tensor:
    """Random numbers, the same each time."""
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, generator=generator).to(dtype)


def _is_kept_kind(w: Tensor) -> bool:
    """Whether this is a plain matrix of some size in main memory, without gaps.

    On an accelerator |w| is cheap and memory is dear.
    """
    return (
        w.dim() == 2
        and type(w) in (Tensor, nn.Parameter)
        and w.device.type == "cpu"
        and w.numel() >= SMALLEST
        and not w.is_inference()
        and (w.is_contiguous() or w.t().is_contiguous())
    )


MAGNITUDES = Magnitudes()
