"""The run context: one model on one batch, with everything that a pass needs to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from torch import Tensor, nn

from whyformer.batching.budget import token_budget
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.stacks import Stacks
from whyformer.engine.tape import Tape
from whyformer.inputs.batch import Batch
from whyformer.models.families import Family
from whyformer.targets.resolve import Goal

# What `keep` can hold that needs whole attention maps in memory.
MAPS = frozenset({"attention", "gradient", "relevance"})
# The value of `memory` that keeps the graph of one block at a time.
CHECKPOINT = "checkpoint"

Recorded = TypeVar("Recorded")


@dataclass(frozen=True)
class Run:
    """One model on one batch. Passes read it and return values; nothing writes into it.

    Attributes:
        module: The model.
        batch: What its forward takes, and whose tokens they are.
        stacks: The model's sequences of token states, and their blocks.
        target: What to explain, as `explain` takes it.
        family: The declared family, None for a model that no family covers.
        deciding: The token that decides, named by the user; None to infer it from the gradient.
        keep: What the user keeps besides the scores.
        memory: "maps", "streamed", or None to choose by the size of the maps; "checkpoint" keeps
            the graph of one block at a time, and streams the maps.
        image_scale: Where relevance of images is read: "tokens" of the language model, "patches"
            that enter the image encoder, or "both".
        tape: Holds forward passes that were run for other targets; None to run each pass once.
    """

    module: nn.Module
    batch: Batch
    stacks: Stacks
    target: Any = None
    family: Family | None = None
    deciding: str | int | None = None
    keep: frozenset[str] = frozenset()
    memory: str | None = None
    image_scale: str = "tokens"
    tape: Tape | None = None

    @property
    def map_memory(self) -> str | None:
        """How attention maps are stored; maps that the user keeps have to be held."""
        if self.keep & MAPS:
            return "maps"
        return "streamed" if self.memory == CHECKPOINT else self.memory

    @property
    def drops_blocks(self) -> bool:
        """Whether the graph of each block is dropped, and built again in the backward pass."""
        return self.memory == CHECKPOINT

    @property
    def name(self) -> str:
        """The model's class, for messages."""
        return type(self.module).__name__

    @property
    def keeps_graph(self) -> bool:
        """Whether the graph of a forward pass will be read again, for another target."""
        return self.tape is not None

    def record(self, settings: tuple[Any, ...], make: Callable[[], Recorded]) -> Recorded:
        """Return the forward pass with these settings: from the tape if it is there, else new."""
        return make() if self.tape is None else self.tape.record(settings, make)

    def aim_at(self, goal: Goal) -> Run:
        """Return the run with its target fixed to the entries that `goal` explains.

        A pass with other token states may predict another class; the target must stay.
        """
        return replace(self, target=goal.target)

    def repeat(self, most: int, tokens: int) -> tuple[Run, int]:
        """Return a run with the batch several times in a row, and how often.

        The token budget limits the repetitions, and so does `most`; `tokens` is the length of one
        sample. A target that is a callable must see the original batch, so it is not repeated.
        """
        times = min(most, token_budget(self.module).tokens // (max(1, tokens) * self.batch.size))
        fixed = isinstance(self.target, list)
        if times < 2 or not fixed or not self.batch.can_take_rows(self.module):
            return self, 1
        rows = [*range(self.batch.size)] * times
        larger = replace(self, batch=self.batch.take(rows), target=self.target * times)
        return replace(larger, deciding=None, keep=frozenset(), tape=None), times

    def new_ledger(self, conserve: bool = False, per_token: bool = False) -> Ledger:
        """Return an empty ledger; it books nothing unless `conserve`.

        With `per_token`, constants inside the blocks are booked for each token apart.
        """
        return Ledger(
            self.batch.size,
            self.stacks.batch_first,
            active=conserve,
            declared=self.family is not None and not self.family.found,
            per_token=per_token,
        )

    def put_batch_first(self, tensor: Tensor) -> Tensor:
        """Return a block's states as (batch, tokens, hidden), whatever order the model uses."""
        return self.stacks.axes.to_tokens(tensor, self.batch.size)

    def by_stack(self, names: Mapping[str, Any], tensors: Iterable[Tensor]) -> dict[str, Tensor]:
        """Return the tensors under the names of their stacks, batch first."""
        return {
            name: self.put_batch_first(tensor) for name, tensor in zip(names, tensors, strict=True)
        }
