"""One batch of inputs: the arguments of the model's forward, and what is known about its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.inputs.padding_layout import Layout
from whyformer.inputs.soft_tokens import SoftTokens
from whyformer.models.signature import samples_axis

Tokens = tuple[tuple[str, ...], ...]
WordIds = tuple[tuple[int | None, ...], ...]
Parts = tuple[tuple[int | None, ...], ...]
Roles = tuple[tuple[tuple[int, int, str], ...], ...]
# Arguments of transformers models whose first axis does not count samples.
NOT_PER_SAMPLE = ("head_mask", "cache_position", "logits_to_keep", "num_items_in_batch")


@dataclass(frozen=True)
class Batch:
    """Inputs of one forward pass, with padding after the tokens.

    All fields except `arguments`, `baseline_arguments` and `others` describe the main stream.
    """

    arguments: Mapping[str, Any]  # the keyword arguments of forward, on the module's device
    baseline_arguments: Mapping[str, Any]  # the same with neutral tokens or zeros
    carrier: str  # the argument that holds the tokens or pixels
    size: int  # number of samples
    stream: str  # text, source, image, audio or tokens
    content: tuple[bytes, ...]  # identifies each sample, independent of padding and other samples
    mask: Tensor | None = None  # (batch, tokens), False at padding
    tokens: Tokens | None = None
    word_ids: WordIds | None = None
    parts: Parts | None = None  # 0 or 1: the text of a pair that each token is from, if known
    roles: Roles | None = None  # of a chat's messages: (start, end, role), in tokens of the sample
    grid: tuple[int, int] | None = None  # (rows, columns) of an image's patches
    image: Tensor | None = None  # (batch, 3, height, width) in 0..1: the pixels the model saw
    tokenizer: Any | None = None
    layout: Layout | None = None  # where the user's columns are, if padding had to be moved
    pixel_mask: Tensor | None = None  # (batch, height, width), 0 at an image's padding
    packed: bool = False  # one sample: the patches of all images, in one list without a batch axis
    notes: tuple[str, ...] = ()  # changes to the inputs that the user should know about
    others: Mapping[str, Batch] = field(default_factory=dict)  # the other streams, by name
    order: tuple[int, ...] | None = None  # the token state of each token, if not in a row
    soft: SoftTokens | None = None  # streams at placeholders in the main one

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the streams, the main one first."""
        return iter((self, *self.others.values()))

    def of(self, stream: str) -> Batch | None:
        """Return the named stream, or None if the inputs do not have it."""
        return self if stream == self.stream else self.others.get(stream)

    @property
    def is_image(self) -> bool:
        """Whether the tokens are parts of an image, possibly preceded by a class token."""
        return self.grid is not None or self.image is not None

    @property
    def count(self) -> int | None:
        """The number of tokens, or None if it is unknown before the model runs."""
        if self.mask is not None:
            return self.mask.shape[1]
        return None if self.grid is None else self.grid[0] * self.grid[1]

    def take(self, rows: Sequence[int] | Tensor, columns: int | None = None) -> Batch:
        """Return a batch of the given samples; they may repeat and be in any order.

        Every stream is cut. An argument without one entry per sample (a setting, a head mask,
        position ids that all samples share) is passed on unchanged.

        Args:
            rows: Indices of the samples.
            columns: Keep only this many tokens of the main stream; see `can_take_columns`.
        """
        index = torch.as_tensor(rows, dtype=torch.long)
        order: list[int] = index.tolist()

        def take_tensor(value: Any, name: str) -> Any:
            if self.soft is not None and name in self.soft.owners:
                return value[self.soft.entries(name, order)]
            if not self._is_per_sample(name, value):
                return value
            taken = value.index_select(0, index.to(value.device))
            if columns is None or not self._is_per_token(name, value):
                return taken
            return taken[:, :columns].contiguous()

        def take_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
            return {name: take_tensor(value, name) for name, value in arguments.items()}

        def take_items(items: Any) -> Any:
            return None if items is None else tuple(items[row][:columns] for row in order)

        return replace(
            self,
            arguments=take_arguments(self.arguments),
            baseline_arguments=take_arguments(self.baseline_arguments),
            size=len(order),
            content=tuple(self.content[row] for row in order),
            mask=take_tensor(self.mask, "mask"),
            tokens=take_items(self.tokens),
            word_ids=take_items(self.word_ids),
            parts=take_items(self.parts),
            roles=None if self.roles is None else tuple(self.roles[row] for row in order),
            image=take_tensor(self.image, "image"),
            pixel_mask=take_tensor(self.pixel_mask, "pixel_mask"),
            layout=None if self.layout is None else self.layout.take(order, columns),
            others={name: other.take(order) for name, other in self.others.items()},
            soft=None if self.soft is None else self.soft.take(order),
        )

    def can_take_rows(self, module: nn.Module) -> bool:
        """Whether it is certain which part of each argument belongs to which sample."""
        per_sample = all(
            self._is_per_sample(name, value) or (self.soft is not None and name in self.soft.owners)
            for name, value in self.arguments.items()
            if not (value is None or isinstance(value, bool | int | float | str))
        )
        # With as many tokens as samples, a (tokens, tokens) mask looks like one row per sample.
        ambiguous = self.size > 1 and self.count == self.size
        return per_sample and not ambiguous and not samples_axis(module)

    def can_take_columns(self) -> bool:
        """Whether trailing columns of padding can be cut from every argument."""
        if self.others or self.soft or self.mask is None or self.grid is not None:
            return False
        return all(
            value.ndim < 2 or self._is_per_token(name, value)
            for name, value in self.arguments.items()
            if isinstance(value, Tensor)
        )

    def _is_per_sample(self, name: str, value: Any) -> bool:
        fits = isinstance(value, Tensor) and value.ndim > 0 and len(value) == self.size
        return fits and name not in NOT_PER_SAMPLE

    def _is_per_token(self, name: str, value: Tensor) -> bool:
        fits = value.ndim >= 2 and value.shape[1] == self.count
        return fits and (value.ndim == 2 or name == self.carrier)
