"""Running the model again on what is left: batched, by length, and never twice for the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import numpy
import torch
from torch import Tensor, nn

from whyformer.attribution import Attribution
from whyformer.capture.outcome import outcome
from whyformer.inputs.removal import HOW, Removal

TOKENS = 4096  # in one forward
IMAGES = 32

Key = tuple[str, int, bytes]


class Rerun:
    """Logits (batch, classes) of one batch with only the kept tokens; see `metrics.rerun`.

    The same sample with the same tokens is asked about once, whichever metric or method asks.
    """

    def __init__(self, removal: Removal) -> None:
        self._removal = removal
        self._known: dict[Key, Tensor] = {}
        self._grids: dict[str, tuple[int, int] | None] = {}
        self.forwards = 0  # samples that went through the model

    @property
    def module(self) -> nn.Module:
        """The model that is asked."""
        return self._removal.module

    def told(self, attribution: Attribution) -> Rerun:
        """Itself, knowing how the attribution's images are cut into patches."""
        self._grids |= {name: stream.grid for name, stream in attribution.streams.items()}
        return self

    def filled(self, stream: str) -> str:
        """How gaps in a stream are filled, in words."""
        fill = self._removal.chosen(stream)
        return f"{fill}: {HOW[fill]}"

    def __call__(self, kept: Mapping[str, Tensor]) -> Tensor:
        ((stream, mask),) = kept.items()
        mask = mask.cpu()
        keys = [(stream, i, _digest(row)) for i, row in enumerate(mask)]
        new = [i for i, key in enumerate(keys) if key not in self._known]
        for rows in self._batches(stream, mask, new):
            found = self._run(stream, mask[rows], rows)
            self._known.update((keys[i], row) for i, row in zip(rows.tolist(), found, strict=True))
        return torch.stack([self._known[key] for key in keys])

    def _run(self, stream: str, mask: Tensor, rows: Tensor) -> Tensor:
        self.forwards += len(rows)
        left = self._removal.left(stream, mask, rows, self._grids.get(stream))
        silence = self._removal.chosen(stream)
        return outcome(self.module, left.prepared, left.silenced, silence).detach().cpu()

    def _batches(self, stream: str, mask: Tensor, new: list[int]) -> Iterator[Tensor]:
        """Rows that run together: of similar length where tokens are dropped."""
        if not new:
            return
        if self._removal.source(stream).kind in ("pixels", "sound"):
            yield from torch.tensor(new).split(IMAGES)
            return
        dropped = self._removal.chosen(stream) == "drop"
        lengths = mask.sum(1).clamp(min=1) if dropped else torch.full((len(mask),), mask.shape[1])
        together = self._removal.runs_together(stream)
        batch: list[int] = []
        for row in sorted(new, key=lambda i: int(lengths[i])):
            longest = int(lengths[row])
            differs = bool(batch) and not together and longest != int(lengths[batch[0]])
            if batch and (differs or (len(batch) + 1) * longest > TOKENS):
                yield torch.tensor(batch)
                batch = []
            batch.append(row)
        yield torch.tensor(batch)


def _digest(row: Tensor) -> bytes:
    packed = numpy.packbits(row.numpy()).tobytes()
    return packed if len(packed) <= 32 else hashlib.blake2b(packed, digest_size=32).digest()
