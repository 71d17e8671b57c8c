"""Relevance of a model's inner nodes: states of layers, attention heads and MLP units."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor


@dataclass(frozen=True, repr=False)
class Nodes:
    """Relevance (activation x gradient under the method's rules) of the nodes of one stack.

    Tokens are those of the stack: class and register tokens stand before an image's patches.

    Attributes:
        states: (batch, layer, token) of the states that enter each block. None if blocks change
            the number of tokens or write into their input.
        heads: (batch, layer, head, token) of each attention head's output, at the query's token.
            A layer is one attention: in a decoder, self-attention and cross-attention take turns.
            None if layers differ in their number of heads.
        units: (batch, layer, unit) of the hidden units of each MLP, summed over tokens. None if
            not every block has an MLP of the same width.
        sinks: (batch, layer) relevance that constants took above each block's input: with the
            states it sums to the explained value. None for models with several stacks.
        answering: The stack that each layer of `heads` attends to.
    """

    states: Tensor | None = None
    heads: Tensor | None = None
    units: Tensor | None = None
    sinks: Tensor | None = None
    answering: tuple[str, ...] = ()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are there, by name."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: part for name, part in parts.items() if isinstance(part, Tensor)}

    def sample(self, index: int) -> Nodes:
        """Return the nodes of one sample, with its padding."""
        cut: dict[str, Any] = {name: t[index : index + 1] for name, t in self.tensors.items()}
        return replace(self, **cut)

    def cpu(self) -> Nodes:
        """Return the nodes in the processor's memory."""
        moved: dict[str, Any] = {name: tensor.cpu() for name, tensor in self.tensors.items()}
        return replace(self, **moved)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and strings, ready for JSON."""
        parts: dict[str, Any] = {name: tensor.tolist() for name, tensor in self.tensors.items()}
        return {**parts, "answering": list(self.answering)}

    def __repr__(self) -> str:
        shapes = (f"{name} {'x'.join(map(str, t.shape))}" for name, t in self.tensors.items())
        return f"<Nodes {', '.join(shapes)}>"
