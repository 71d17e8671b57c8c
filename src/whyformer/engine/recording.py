"""What a pass records on its way: attention maps going up, sums of relevance coming down."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from whyformer.engine.forward import Watch
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.fused_attention import FusedCall, four_axes
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.stacks import Stacks
from whyformer.errors import ModelError, OptionError
from whyformer.models.families import Pair

# What a caller may keep of a layer that has to be held for it.
MAPS = frozenset({"attention", "gradient", "relevance"})
# A map with more entries than this is not held: what its rows are made of is.
HELD = 2**20


class Maps:
    """Attention maps as the model shaped them, in the order they ran, and whose tokens they mix.

    Where fused attention stays fused, what it returned stands in place of its map, and `calls`
    has what it was given.
    """

    def __init__(
        self,
        watch: Watch,
        ledger: Ledger,
        stacks: Stacks,
        leaf: bool,
        memory: str | None = None,
    ) -> None:
        """`leaf`: the lowest are where tracking starts; `memory` as in `explain`."""
        self.watch = watch
        self.ledger = ledger
        self.stacks = stacks
        self.leaf = leaf
        self.most = {"maps": math.inf, "streamed": 0, None: HELD}[memory]
        self.maps: list[Tensor] = []
        self.calls: list[FusedCall | None] = []
        self.pairs: list[tuple[Pair, bool]] = []  # (asking, answering), with the one before?

    def record(self, attention: Tensor) -> Tensor:
        """The map as the model goes on with it, noted."""
        self.ledger.check_order(attention)
        return self._note(attention, None)

    def hold(self, call: FusedCall, run: Callable[[FusedCall], Tensor]) -> Tensor | None:
        """What fused attention returns, noted; None where its map is small enough to be held."""
        entries = call.query[..., 0].numel() * call.key.shape[-2]
        if entries <= self.most or is_tracked(call.attn_mask):
            return None
        self.ledger.check_order(call.query)
        plain = four_axes(call._replace(dropout_p=0.0))
        output = self._note(run(plain), plain)
        return output.reshape(*call.query.shape[:-1], output.shape[-1])

    def _note(self, attention: Tensor, call: FusedCall | None) -> Tensor:
        if not self.watch.states:
            raise ModelError(
                "attention was computed before the token states entered the first block, so the"
                " model has more than these blocks: name all of them by blocks='path.to.blocks'"
            )
        if self.leaf and not attention.requires_grad:
            attention = tags.add_tag(attention.detach().requires_grad_(), tags.LEAF)
        self.pairs.append(self._whose())
        self.maps.append(attention)
        self.calls.append(call)
        return attention

    def _whose(self) -> tuple[Pair, bool]:
        if self.watch.asking:
            return self.watch.asking[-1]
        only = self.stacks.only
        if only is None:
            raise ModelError(
                "an attention ran outside of every module that the model's family declares in its"
                " table of attention, so whose tokens it mixes is unknown: add the module's path"
            )
        return (only.name, only.name), False

    def chosen(self, first: int = 0, end: int | None = None, by_pair: bool = False) -> list[int]:
        """The maps of the layers from `first` up to `end`, each stack's own counted on its own.

        A layer is one map that the stack's tokens ask, or that they ask of one other stack if
        counted by pair; negative numbers count from the top.
        """
        layers: dict[Any, list[int]] = {}
        for i, (pair, _) in enumerate(self.pairs):
            layers.setdefault(pair if by_pair else pair[0], []).append(i)
        if not layers:
            raise ModelError(unseen("attention"))
        most = max(map(len, layers.values()))
        if not -most <= first < most:
            raise OptionError(
                f"start_layer={first}, but the model has {most} attention layers:"
                f" {-most} to {most - 1}"
            )
        hidden = {name for name, track in self.stacks.tracks.items() if track.stack.hidden}
        kept = sorted(
            i for stack, own in layers.items() for i in (own if stack in hidden else own[first:end])
        )
        if not kept or (end is not None and abs(end) > most):
            raise OptionError(
                f"start_layer={first} and end_layer={end} leave no layers of {most}:"
                f" end_layer is behind the last one wanted, {first % most + 1} to {most}"
            )
        return kept


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


def unseen(what: str) -> str:
    """The sentence for a method whose subject the model does not have."""
    return (
        f"no {what} was seen inside the model's blocks, so this method has nothing to work with."
        " If the blocks are elsewhere, name them by blocks='path.to.blocks'; if the model has no"
        " attention (softmax times values), use 'gradient_x_input' or 'integrated_gradients'."
    )
