"""One sequence of tokens of an attribution: scores, texts, words and image."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from whyformer.errors import InputError


@dataclass(frozen=True)
class Stream:
    """One sequence of tokens and the relevance of each token.

    A text stream lists every token, special tokens included. An image stream lists the patches
    only, row by row.

    Attributes:
        name: "text", "image", "queries", "source", "generated", "audio" or "tokens".
        scores: (batch, tokens), 0 at padding.
        mask: (batch, tokens), False at padding.
        tokens: The readable tokens of each sample.
        word_ids: Which word each token belongs to, per sample; None for special tokens.
        grid: (rows, columns) of an image's patches.
        image: (batch, 3, height, width) in 0..1: the pixels that the model saw.
        pixels: (batch, height, width), for methods that reach pixels.
        states: (batch, tokens, hidden) at which the scores were read, if they were kept.
        deciding: (batch, tokens), True where a head reads the answer, if that is known.
        errors: (batch, tokens), the standard error of each score, if scores are estimates.
        roles: For chats, the (start, end, role) of each message in tokens, per sample. The end is
            exclusive. Tokens in no message are from the chat template.
        said: For generated text, the token that was explained at each position; "" elsewhere.
        probabilities: (batch, tokens), of each token in `said`; 0 at padding.
        spans: The (start, end) places in `said` of each row of maps about generated text, per
            sample; None if there is a row for each token.
    """

    name: str
    scores: Tensor
    mask: Tensor
    tokens: tuple[tuple[str, ...], ...] | None = None
    word_ids: tuple[tuple[int | None, ...], ...] | None = None
    grid: tuple[int, int] | None = None
    image: Tensor | None = None
    pixels: Tensor | None = None
    states: Tensor | None = None
    deciding: Tensor | None = None
    errors: Tensor | None = None
    said: tuple[tuple[str, ...], ...] | None = None
    roles: tuple[tuple[tuple[int, int, str], ...], ...] | None = None
    probabilities: Tensor | None = None
    spans: tuple[tuple[tuple[int, int], ...], ...] | None = None

    @property
    def score_map(self) -> Tensor:
        """Scores laid out as the image's patches, (batch, rows, columns)."""
        if self.grid is None:
            raise InputError(f"stream '{self.name}' has no grid: it is not an image")
        return self.scores.unflatten(1, self.grid)

    def columns(self, index: int) -> Tensor:
        """Return the columns of one sample's tokens, (tokens,).

        An image keeps padding inside of its own grid: without it, the grid would not fit.
        """
        if self.grid is None:
            return self.mask[index].nonzero().flatten()
        every = torch.arange(self.mask.shape[1])
        if len(every) != self.grid[0] * self.grid[1]:
            return every  # patches are missing, so that no row or column can be cut
        rows, columns = self.own_grid(index)
        return every.reshape(self.grid)[:rows, :columns].flatten()

    def own_grid(self, index: int) -> tuple[int, int]:
        """Return the grid of one sample's image, without rows and columns of padding at its end.

        It is the whole grid if the pixels of the image cannot be cut at the same place.
        """
        assert self.grid is not None
        if self.mask.shape[1] != self.grid[0] * self.grid[1]:
            return self.grid
        real = self.mask[index].reshape(self.grid).nonzero()
        pictures = (self.image, self.pixels)
        sizes = [picture.shape[-2:] for picture in pictures if picture is not None]
        if not len(real) or any(h % self.grid[0] or w % self.grid[1] for h, w in sizes):
            return self.grid
        rows, columns = (real.amax(0) + 1).tolist()
        return rows, columns

    def rows(self, index: int) -> Tensor:
        """Return the rows of one sample in a map about this stream's tokens, or its spans."""
        return self.columns(index) if self.spans is None else torch.arange(len(self.spans[index]))

    def sample(self, index: int) -> Stream:
        """Return the stream of one sample without padding, (1, tokens)."""
        keep = self.columns(index)
        positions = keep.tolist()
        grid = None if self.grid is None else self.own_grid(index)

        def cut(tensor: Tensor | None) -> Tensor | None:
            if tensor is None or self.grid is None or grid is None:
                return None if tensor is None else tensor[index : index + 1]
            height, width = (
                size * own // all_
                for size, own, all_ in zip(tensor.shape[-2:], grid, self.grid, strict=True)
            )
            return tensor[index : index + 1, ..., :height, :width]

        def cut_tokens(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[index : index + 1, keep]

        return replace(
            self,
            scores=self.scores[index : index + 1, keep],
            mask=self.mask[index : index + 1, keep],
            tokens=self.tokens and (tuple(self.tokens[index][i] for i in positions),),
            word_ids=self.word_ids and (tuple(self.word_ids[index][i] for i in positions),),
            said=self.said and (tuple(self.said[index][i] for i in positions),),
            roles=self.roles and (_move_roles(self.roles[index], positions),),
            grid=grid,
            image=cut(self.image),
            pixels=cut(self.pixels),
            states=cut_tokens(self.states),
            deciding=cut_tokens(self.deciding),
            errors=cut_tokens(self.errors),
            probabilities=cut_tokens(self.probabilities),
            spans=self.spans and (self.spans[index],),
        )


def _move_roles(
    roles: tuple[tuple[int, int, str], ...], positions: list[int]
) -> tuple[tuple[int, int, str], ...]:
    """The roles of messages, counted in the kept positions."""
    return tuple(
        (bisect_left(positions, start), bisect_left(positions, end), role)
        for start, end, role in roles
    )
