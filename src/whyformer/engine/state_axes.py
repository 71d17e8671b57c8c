"""The axes of token states: where samples, tokens and features are."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class StateAxes:
    """How a model lays out its token states.

    Attributes:
        batch_first: Whether states are (batch, tokens, hidden) and not (tokens, batch, hidden).
        channels_first: Whether states with rows and columns are (batch, hidden, rows, columns)
            and not (batch, rows, columns, hidden).
        joint: Whether states of higher rank are (batch, tokens, ...): features on all other axes.
        proven: Whether it was seen which tokens the states are (see `token_places`). Only then
            may states have rows and columns, or parts of a sample (windows) on the first axis.
        packed: Whether there is one sample, whose states may be (tokens, hidden).
    """

    batch_first: bool = True
    channels_first: bool = False
    joint: bool = False
    proven: bool = False
    packed: bool = False

    def fits(self, states: Tensor, batch: int) -> bool:
        """Return whether a tensor can be the token states of so many samples."""
        if self.packed and states.dim() == 2:
            return True
        if self.batch_first and self.proven:
            return states.dim() >= 3 and len(states) % batch == 0
        return states.dim() == 3 and states.shape[0 if self.batch_first else 1] == batch

    def to_tokens(self, states: Tensor, batch: int) -> Tensor:
        """Return states as (batch, tokens, hidden)."""
        if self.packed:
            return states.unsqueeze(0) if states.dim() == 2 else states
        if states.dim() > 3 and self.joint:
            return states.flatten(2)
        if states.dim() > 3:
            states = states.movedim(1, -1) if self.channels_first else states
            return states.reshape(batch, -1, states.shape[-1])
        if not self.batch_first:
            return states.transpose(0, 1)
        if self.proven and len(states) != batch and len(states) % batch == 0:
            return states.reshape(batch, -1, states.shape[-1])
        return states

    def from_tokens(self, tokens: Tensor, like: Tensor) -> Tensor:
        """Return (batch, tokens, hidden) in the shape of the model's own states."""
        if self.packed:
            return tokens.reshape(like.shape)
        if like.dim() > 3 and self.channels_first:
            return tokens.reshape(like.movedim(1, -1).shape).movedim(-1, 1)
        if not self.batch_first:
            return tokens.transpose(0, 1)
        return tokens.reshape(like.shape) if self.proven else tokens

    def count(self, states: Tensor, batch: int) -> int:
        """Return the number of tokens of each sample."""
        if not self.fits(states, batch):
            return states.shape[1 if self.batch_first else 0]
        return self.to_tokens(states, batch).shape[1]


@dataclass(frozen=True)
class Places:
    """Where the tokens of a stream stand among the states that enter the first block.

    Attributes:
        axes: How the states are laid out.
        tokens: The number of states of each sample.
        columns: The state of each token, in the stream's order.
        grid: (rows, columns) of an image's tokens.
    """

    axes: StateAxes
    tokens: int
    columns: tuple[int, ...]
    grid: tuple[int, int] | None
