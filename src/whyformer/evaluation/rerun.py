"""Running the model again on what is left: batched, by length, and never twice for the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy
import torch
from torch import Tensor, nn

from whyformer.attribution import Attribution
from whyformer.engine.predict import predict
from whyformer.inputs.removal import FILL_TEXTS, Removal

TOKENS = 4096  # in one forward
IMAGES = 32
REMEMBERED = 64_000_000  # numbers: a language model's answers are as long as its vocabulary

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
        fill = self._removal.fill_of(stream)
        return f"{fill}: {FILL_TEXTS[fill]}"

    def __call__(self, kept: Mapping[str, Tensor]) -> Tensor:
        ((stream, mask),) = kept.items()
        return self.several(stream, [mask])[0]

    def several(self, stream: str, masks: Sequence[Tensor]) -> list[Tensor]:
        """The answers to several masks; what is of one length runs together, whichever asks."""
        if sum(row.numel() for row in self._known.values()) > REMEMBERED:
            self._known.clear()
        asked = [[(stream, i, _digest(row)) for i, row in enumerate(mask.cpu())] for mask in masks]
        new = {
            key: row
            for keys, mask in zip(asked, masks, strict=True)
            for key, row in zip(keys, mask.cpu(), strict=True)
            if key not in self._known
        }
        for keys in self._batches(stream, new):
            rows = torch.tensor([row for _, row, _ in keys])
            found = self._run(stream, torch.stack([new[key] for key in keys]), rows)
            self._known.update(zip(keys, found, strict=True))
        return [torch.stack([self._known[key] for key in keys]) for keys in asked]

    def _run(self, stream: str, mask: Tensor, rows: Tensor) -> Tensor:
        self.forwards += len(rows)
        left = self._removal.remove(stream, mask, rows, self._grids.get(stream))
        silence = self._removal.fill_of(stream)
        found = predict(self.module, left.batch, left.silenced, silence, stream)
        return found.detach().cpu()

    def _batches(self, stream: str, new: Mapping[Key, Tensor]) -> Iterator[list[Key]]:
        """Samples that run together: of similar length where tokens are dropped."""
        keys = list(new)
        if self._removal.source(stream).kind in ("pixels", "sound"):
            yield from (keys[i : i + IMAGES] for i in range(0, len(keys), IMAGES))
            return
        dropped = self._removal.fill_of(stream) == "drop"
        lengths = {key: max(1, int(row.sum())) if dropped else len(row) for key, row in new.items()}
        together = self._removal.runs_together(stream)
        batch: list[Key] = []
        for key in sorted(keys, key=lengths.__getitem__):
            differs = bool(batch) and not together and lengths[key] != lengths[batch[0]]
            if batch and (differs or (len(batch) + 1) * lengths[key] > TOKENS):
                yield batch
                batch = []
            batch.append(key)
        if batch:
            yield batch


def _digest(row: Tensor) -> bytes:
    # Its length too: a stream may lose tokens or pixels.
    packed = len(row).to_bytes(4) + numpy.packbits(row.numpy()).tobytes()
    return packed if len(packed) <= 32 else hashlib.blake2b(packed, digest_size=32).digest()
