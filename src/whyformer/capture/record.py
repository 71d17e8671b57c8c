"""What a pass records on its way: attention maps going up, sums of relevance coming down."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from whyformer.capture.forward import Watch
from whyformer.errors import ModelError, OptionError
from whyformer.rules import marks
from whyformer.rules.ledger import Ledger
from whyformer.rules.stabilise import wide


class Maps:
    """Attention maps as the model shaped them, bottom up, the lowest a leaf if so asked."""

    def __init__(self, watch: Watch, ledger: Ledger, leaf: bool) -> None:
        self.watch = watch
        self.ledger = ledger
        self.leaf = leaf
        self.maps: list[Tensor] = []

    def record(self, attention: Tensor) -> Tensor:
        """The map as the model goes on with it, noted."""
        if self.watch.seen is None:
            raise ModelError(
                "attention was computed before the token states entered the first block, so the"
                " model has more than these blocks: name all of them by blocks='path.to.blocks'"
            )
        self.ledger.check_order(attention)
        if self.leaf and not attention.requires_grad:
            attention = marks.mark(attention.detach().requires_grad_(), marks.LEAF)
        self.maps.append(attention)
        return attention

    def index(self, layer: int) -> int:
        """The layer counted from the bottom, whichever way it was counted."""
        count = len(self.maps)
        if not count:
            raise ModelError(unseen("attention"))
        if not -count <= layer < count:
            raise OptionError(
                f"start_layer={layer}, but the model has {count} attention layers:"
                f" {-count} to {count - 1}"
            )
        return layer % count


class RelevanceSums:
    """The relevance of what each block returned, summed per sample while it passes by."""

    def __init__(self, leaving: list[Tensor], ledger: Ledger, batch_first: bool) -> None:
        self.sums: dict[int, Tensor] = {}
        self.count = len(leaving)
        self.per_sample = partial(ledger.per_sample, batch_first=batch_first)
        for i, tensor in enumerate(leaving):
            if tensor.requires_grad:
                tensor.register_hook(partial(self._note, i))

    def _note(self, i: int, relevance: Tensor) -> None:
        self.sums.setdefault(i, self.per_sample(wide(relevance)))

    def of(self, layer: int, layers: int) -> Tensor | None:
        """The sum behind an attention layer, where each block has one."""
        return self.sums.get(layer) if layers == self.count else None


def aligned(count: int, **parts: list[Tensor]) -> list[dict[str, Tensor | None]]:
    """One row per layer, bottom up; parts that fewer layers have belong to the upper ones."""
    padded = {name: [None] * (count - len(found)) + found for name, found in parts.items()}
    return [{name: found[i] for name, found in padded.items()} for i in range(count)]


def unseen(what: str) -> str:
    """The sentence for a method whose subject the model does not have."""
    return (
        f"no {what} was seen inside the model's blocks, so this method has nothing to work with."
        " If the blocks are elsewhere, name them by blocks='path.to.blocks'; if the model has no"
        " attention (softmax times values), use 'gradient_x_input' or 'integrated_gradients'."
    )
