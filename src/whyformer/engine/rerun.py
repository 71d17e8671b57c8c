"""Run the model again on the kept tokens, in batches of similar length; each mask runs once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from whyformer.attribution import Attribution
from whyformer.batching.budget import pass_cost
from whyformer.batching.plan import plan_batches
from whyformer.engine.predict import predict
from whyformer.inputs.removal import FILL_TEXTS, TIME_AXES, Removal

TOKENS = 4096  # in one forward pass
IMAGES = 32
REMEMBERED = 64_000_000  # numbers: a language model's logits are as long as its vocabulary

Key = tuple[str, int, bytes]  # stream, sample, digest of the mask
Grids = Mapping[str, tuple[int, int] | None]


@dataclass
class _Shared:
    """What all reruns of one batch share."""

    forwards: int = 0  # samples that went through the model
    # The first question of a metric is usually the whole input: by stream and mask its logits.
    first: dict[tuple[str, bytes], dict[Key, Tensor]] = field(default_factory=dict)


@dataclass
class _Answers:
    """The logits computed so far."""

    logits: dict[Key, Tensor] = field(default_factory=dict)
    shared: _Shared = field(default_factory=_Shared)
    shares_first: bool = False


class Rerun:
    """Logits (batch, classes) of one batch with only the kept tokens; a `Predictor`.

    Each mask of a sample runs once, whichever metric or method needs it.

    Args:
        removal: The batch, the model, and what replaces removed tokens.
        grids: By stream the (rows, columns) of an image's patches, if masks are of patches.
    """

    def __init__(
        self, removal: Removal, grids: Grids | None = None, *, answers: _Answers | None = None
    ) -> None:
        self._removal = removal
        self._grids = dict(grids or {})
        self._answers = answers or _Answers()

    @property
    def module(self) -> nn.Module:
        """The model that runs."""
        return self._removal.module

    @property
    def forwards(self) -> int:
        """How many samples went through the model."""
        return self._answers.shared.forwards

    def with_grids_of(self, attribution: Attribution) -> Rerun:
        """Return a rerun with the grids of the attribution's streams; both share their answers."""
        grids = {name: stream.grid for name, stream in attribution.streams.items()}
        return Rerun(self._removal, grids, answers=self._answers)

    def without_answers(self) -> Rerun:
        """Return a rerun that knows no logits yet, so that its passes do not depend on others.

        Which masks run together changes the last digits of their logits. Only a first question
        that was asked before, and then ran alone, is not computed again.
        """
        return Rerun(self._removal, self._grids, answers=_Answers({}, self._answers.shared, True))

    def fill_text(self, stream: str) -> str:
        """What replaces removed tokens of a stream, in words."""
        fill = self._removal.fill_of(stream)
        return f"{fill}: {FILL_TEXTS[fill]}"

    def __call__(self, kept: Mapping[str, Tensor]) -> Tensor:
        """Return the logits (batch, classes) of a mask of one stream."""
        ((stream, mask),) = kept.items()
        return self.logits_each(stream, [mask])[0]

    def logits_each(self, stream: str, masks: Sequence[Tensor]) -> list[Tensor]:
        """Return the logits (batch, classes) of each mask of one stream."""
        known = self._answers.logits
        if sum(row.numel() for row in known.values()) > REMEMBERED:
            known.clear()
        masks = [mask.cpu() for mask in masks]
        is_first = self._answers.shares_first and not known and len(masks) == 1
        first = (stream, _digest(masks[0])) if is_first else None
        if first is not None:
            known.update(self._answers.shared.first.get(first, {}))
        keys = [[(stream, i, _digest(row)) for i, row in enumerate(mask)] for mask in masks]
        new = {
            key: row
            for of_mask, mask in zip(keys, masks, strict=True)
            for key, row in zip(of_mask, mask, strict=True)
            if key not in known
        }
        for batch in self._batches(stream, new):
            rows = torch.tensor([row for _, row, _ in batch])
            found = self._run(stream, torch.stack([new[key] for key in batch]), rows)
            known.update(zip(batch, found, strict=True))
        if first is not None:
            self._answers.shared.first[first] = dict(known)
        return [torch.stack([known[key] for key in of_mask]) for of_mask in keys]

    def _run(self, stream: str, mask: Tensor, rows: Tensor) -> Tensor:
        """Logits (rows, classes) of some samples with the kept tokens."""
        self._answers.shared.forwards += len(rows)
        left = self._removal.remove(stream, mask, rows, self._grids.get(stream))
        silence = self._removal.fill_of(stream)
        found = predict(self.module, left.batch, left.silenced, silence, stream)
        return found.detach().cpu()

    def _batches(self, stream: str, new: Mapping[Key, Tensor]) -> list[list[Key]]:
        """The samples of each forward pass: of similar length if tokens are dropped."""
        keys = list(new)
        plan = plan_passes(self._removal, [{stream: row} for row in new.values()])
        return [[keys[i] for i in batch] for batch in plan]


def plan_passes(removal: Removal, kept: Sequence[Mapping[str, Tensor]]) -> list[list[int]]:
    """Return which inputs run together, as indices, so that all passes together cost least.

    Args:
        removal: What replaces removed tokens.
        kept: For each input by stream what it keeps, (tokens,).
    """
    streams = tuple(kept[0]) if kept else ()
    dropped = {stream: removal.fill_of(stream) == "drop" for stream in streams}
    # Without a padding mask only samples of one length can run together.
    apart = [stream for stream in streams if not removal.runs_together(stream)]

    def length(stream: str, row: Tensor) -> int:
        return max(1, int(row.sum())) if dropped[stream] else len(row)

    kinds = [tuple(length(stream, rows[stream]) for stream in apart) for rows in kept]
    cost = pass_cost(removal.module)
    if any(removal.source(stream).kind in ("pixels", "video", *TIME_AXES) for stream in streams):
        return plan_batches([1] * len(kept), tokens=IMAGES, kinds=kinds, pass_cost=cost)
    lengths = [sum(length(stream, row) for stream, row in rows.items()) for rows in kept]
    return plan_batches(lengths, tokens=TOKENS, kinds=kinds, pass_cost=cost)


def _digest(row: Tensor) -> bytes:
    # One byte per entry, so its length counts too: masks may be of tokens or of pixels.
    entries = row.numpy().tobytes()
    return entries if len(entries) <= 32 else hashlib.blake2b(entries, digest_size=32).digest()
