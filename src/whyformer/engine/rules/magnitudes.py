"""|w| of the weights that come back in call after call, kept as long as the weights live.

The relevance rule of a linear layer multiplies by |w|. To work it out anew for every explanation
costs as much memory traffic as the weights have, a twentieth of the time. It is kept from the
second time on that the same weight is met, so a single explanation takes no memory for it.

It is found by the weight's memory itself, weakly: it goes when that goes, and no copy or file of
the model carries it. Two signs tell that a weight was changed: the version that torch counts with
every write that it sees, and for writes that it does not (`w.data[5] = 0`, NumPy) the weight's
imprint: its product with a fixed random vector, which goes along as one more row of the forward
pass. A change that single precision would hardly show in a row's sum leaves no imprint.
"""

from __future__ import annotations

import threading
import weakref
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.engine.rules.relevance.shares import Absolutes, absolutes
from whyformer.engine.rules.scratch import Room, fresh

LIMIT = 2**30  # bytes, of all models together; what does not fit is worked out every time
SMALLEST = 2**16  # numbers; of fewer, |w| costs no more than to look it up


class _Sighting(NamedTuple):
    version: int
    imprint: Tensor
    absolutes: Absolutes | None


class Magnitudes:
    """|w| and its like by weight, up to `limit` bytes of them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._seen: weakref.WeakKeyDictionary[torch.UntypedStorage, dict[Any, _Sighting]] = (
            weakref.WeakKeyDictionary()
        )
        self._guard = threading.Lock()

    def of(
        self, w: Tensor, bias: Tensor | None = None, imprint: Tensor | None = None
    ) -> Absolutes | None:
        """A layer's absolutes if they are kept, or are kept from now on; else None."""
        if imprint is None:
            return None
        # The offset, shape and so on: several weights may be views of one memory (q, k and v).
        view = (w.storage_offset(), w.shape, w.stride(), w.dtype)
        with self._guard:
            views = self._seen.setdefault(w.untyped_storage(), {})
            known = views.get(view)
            if known is None or known.version != w._version or not _alike(known.imprint, imprint):
                # A copy: the imprint itself is a row of the layer's output.
                views[view] = _Sighting(w._version, imprint.clone(), None)
                return None
            if known.absolutes is None and self._size() + w.nbytes <= self.limit:
                with torch.no_grad():
                    known = views[view] = known._replace(absolutes=absolutes(w, bias))
            return known.absolutes

    def size(self) -> int:
        """How many bytes are kept."""
        with self._guard:
            return self._size()

    def _size(self) -> int:
        kept = (one.absolutes for views in self._seen.values() for one in views.values())
        return sum(one.weights.nbytes for one in kept if one is not None)


def stamped(
    rows: Tensor, w: Tensor, bias: Tensor | None, room: Room = fresh
) -> tuple[Tensor, Tensor | None]:
    """rows @ w.T + bias, and the layer's imprint where its absolutes may be kept."""
    if not _is_kept_kind(w) or rows.dtype != w.dtype:
        return F.linear(rows, w, bias), None
    one_more = room("stamped", (len(rows) + 1, rows.shape[1]), rows)
    both = F.linear(torch.cat([rows, _vector(*w.shape[1:], w.dtype)], out=one_more), w, bias)
    return both[:-1], both[-1]


@cache
def _vector(count: int, dtype: torch.dtype) -> Tensor:
    """Random numbers, the same each time and none near 0, (1, count)."""
    generator = torch.Generator().manual_seed(count)
    size, sign = torch.rand(2, 1, count, generator=generator)
    return ((size + 0.5) * torch.where(sign < 0.5, -1.0, 1.0)).to(dtype)


def _alike(first: Tensor, second: Tensor) -> bool:
    """Whether two imprints are one: products of another number of rows round otherwise."""
    if torch.equal(first, second):
        return True
    apart = 8 * torch.finfo(first.dtype).eps * first.abs().amax()
    return bool(((first - second).abs() <= apart).all())


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
