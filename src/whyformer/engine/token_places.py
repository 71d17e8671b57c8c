"""Where the input's tokens stand among the token states: found by changing them, a few at a time.

A model may put class, register or prompt tokens anywhere, pad to a window, reorder patches, cut an
image into windows, or keep rows and columns apart. So the states that enter the first block are
computed again with some tokens changed. Which ones: those whose number has bit 0 set, then those
that have not, then the same for bit 1, ... The states that change spell the number of the one token
that they come from. A state that never changes comes from no token.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.pooling import _AvgPoolNd, _MaxPoolNd

from whyformer.engine.scope import add_hooks, parts_with_hooks
from whyformer.engine.stacks import Stacks
from whyformer.engine.state_axes import Places, StateAxes
from whyformer.engine.state_hooks import first_floating
from whyformer.errors import ModelError
from whyformer.inputs.batch import Batch

# Modules that return (batch, channels, rows, columns).
_FEATURE_MAPS = (_ConvNd, _BatchNorm, _MaxPoolNd, _AvgPoolNd)
TRIED = 4  # of the last feature maps
VISIBLE = 1e-6  # of the largest state: less is rounding


Hits = tuple[Tensor, Tensor]  # (batch, columns) each
Change = Callable[[Tensor], Tensor | None]  # from marked tokens (batch, tokens) to the states


@dataclass(frozen=True)
class _Tokens:
    """Tokens that can be changed: which are real (batch, tokens), their grid, and how."""

    real: Tensor
    grid: tuple[int, int] | None
    change: Change

    @property
    def count(self) -> int:
        return self.real.shape[1]


_known: weakref.WeakKeyDictionary[nn.Module, dict[Any, Places | None]] = weakref.WeakKeyDictionary()


def place_tokens(stacks: Stacks, module: nn.Module, batch: Batch) -> Stacks:
    """Return the one stack of an undeclared model with what its states show about their layout."""
    track = stacks.only
    if track is None or not track.chain or stacks.merged:
        return stacks
    if batch.packed:
        return replace(stacks, axes=StateAxes(packed=True))
    places = find_places(module, batch, track.chain[0])
    if places is not None:
        return replace(stacks, axes=places.axes, places=places)
    if batch.stream == "video":
        raise ModelError(
            f"the token states that enter the first block of {type(module).__name__} are not one"
            " per patch of a frame, or not in an order that whyformer can see",
            argument="blocks",
            remedy="If these are not the model's blocks, name them: blocks='path.to.blocks'",
        )
    return stacks


def find_places(module: nn.Module, batch: Batch, block: nn.Module) -> Places | None:
    """Return where the tokens stand in the states that enter a block; None if that is not clear.

    It is found once for each module, block and shape of inputs. None too for states
    (batch, tokens, hidden) that are as many as the text's tokens: there is no other order.
    """
    if batch.size == 1 and batch.can_take_rows(module):
        batch = batch.take([0, 0])  # one sample cannot show which axis has the samples
    known = _known.setdefault(module, {})
    shapes = [(k, tuple(v.shape)) for k, v in batch.arguments.items() if isinstance(v, Tensor)]
    path = next(name for name, part in module.named_modules() if part is block)
    key = (path, *sorted(shapes))
    if key not in known:
        known[key] = _search(_Probe(module, batch, block))
    return known[key]


def _search(probe: _Probe) -> Places | None:
    batch = probe.batch
    states, maps = probe.run()
    if states is None or states.dim() < 3:
        return None
    plain = states.dim() == 3 and states.shape[:2] == (batch.size, batch.count)
    if plain and not probe.has_pixels and batch.size != batch.count:
        return None
    again, _ = probe.run()
    if again is None or again.shape != states.shape or not torch.equal(again, states):
        if probe.has_pixels:
            raise _random(probe.module)
        return None
    for candidate in probe.candidates(maps, states[..., 0].numel() // batch.size):
        found = _read(states, candidate, batch.size)
        if found is not None:
            return found
    if batch.count is None and not probe.has_pixels and _ends_with_features(probe.block, states):
        # Nothing says what the tokens are (patches of a time series): they are the states. But an
        # input with as many rows as the states has one token per row, with several states each.
        carried = batch.arguments[batch.carrier]
        joint = carried.dim() == 3 and carried.shape[:2] == states.shape[:2]
        axes = StateAxes(joint=joint, proven=True)
        tokens = axes.count(states, batch.size)
        return Places(axes, tokens, tuple(range(tokens)), None)
    return None


def _ends_with_features(block: nn.Module, states: Tensor) -> bool:
    """Whether states (batch, ..., hidden) have features on their last axis: a linear layer says."""
    widths = {part.in_features for part in block.modules() if isinstance(part, nn.Linear)}
    return states.dim() > 3 and states.shape[-1] in widths and states.shape[1] not in widths


def _random(module: nn.Module) -> ModelError:
    return ModelError(
        f"{type(module).__name__} draws at random which token states enter its first block: two"
        " passes on the same input differ, so a score may belong to another patch",
        argument="model",
        remedy="Switch the random masking off (such as config.mask_ratio = 0), or pass the random"
        " numbers as an input, if forward takes them",
    )


class _BlockReachedError(Exception):
    """The states have entered the first block, and the rest of the model need not run."""


@dataclass(frozen=True)
class _Probe:
    """Runs a model up to a block."""

    module: nn.Module
    batch: Batch
    block: nn.Module

    @property
    def has_pixels(self) -> bool:
        """Whether the tokens are patches of images or videos."""
        carried = self.batch.arguments.get(self.batch.carrier)
        rank = carried.dim() if isinstance(carried, Tensor) and carried.is_floating_point() else 0
        return self.batch.is_image or rank in (4, 5)

    def run(
        self,
        arguments: Mapping[str, Any] | None = None,
        change: Callable[[int, Tensor], Tensor | None] | None = None,
    ) -> tuple[Tensor | None, list[Tensor]]:
        """Return the states that enter the block, and the feature maps that ran before.

        `change` replaces a feature map, given its number. No states if the model fails.
        """
        reached: list[Tensor | None] = []
        maps: list[Tensor] = []

        def before(part: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            states = first_floating(args, kwargs)
            reached.append(None if states is None else states.detach().clone())
            raise _BlockReachedError

        def after(part: nn.Module, args: tuple, output: Any) -> Any:
            maps.append(output.detach())
            return change(len(maps) - 1, output) if change else None

        hooks: list[Any] = [(self.block, "before", before)]
        parts = parts_with_hooks(self.module)
        hooks += [(part, "after", after) for part in parts if isinstance(part, _FEATURE_MAPS)]
        given = self.batch.arguments if arguments is None else arguments
        try:
            with add_hooks(hooks), torch.no_grad():
                self.module(**given)
        except _BlockReachedError:
            return reached[0], maps
        except Exception:
            pass  # the explanation runs the model again, and says what is wrong
        return None, maps

    def candidates(self, maps: list[Tensor], count: int) -> Iterator[_Tokens]:
        """The tokens of the input: cells of the last feature maps, patches, or tokens of a text.

        `count` is the number of states of each sample.
        """
        if self.has_pixels:
            for number in [*reversed(range(len(maps)))][:TRIED]:
                if maps[number].dim() > 3 and len(maps[number]) % self.batch.size == 0:
                    yield self._cells(number, maps[number])
        carried = self.batch.arguments.get(self.batch.carrier)
        if not isinstance(carried, Tensor):
            return
        if self.has_pixels and carried.dim() == 4:
            for grid in self._grids(carried, count):
                change = partial(self._change_patches, grid)
                yield _Tokens(self._all(grid[0] * grid[1]), grid, change)
        elif self.batch.mask is not None and carried.shape[:2] == self.batch.mask.shape:
            yield _Tokens(self.batch.mask.bool(), self.batch.grid, self._change_rows)

    def _cells(self, number: int, feature_map: Tensor) -> _Tokens:
        """The cells of a feature map (batch, channels, rows, columns).

        A video has (batch x frames, channels, ...) or (batch, channels, frames, ...). The rows of
        its grid are those of the first frame, then of the next one.
        """
        count = feature_map[:, 0].numel() // self.batch.size
        width = feature_map.shape[-1]

        def change(marked: Tensor) -> Tensor | None:
            def move(turn: int, output: Tensor) -> Tensor | None:
                if turn != number:
                    return None
                return _moved(output, marked.reshape(len(output), 1, *output.shape[2:]))

            return self.run(change=move)[0]

        return _Tokens(self._all(count), (count // width, width), change)

    def _grids(self, pixels: Tensor, count: int) -> list[tuple[int, int]]:
        """Grids of square patches, at most so many; first that of the config, then the finest."""
        height, width = pixels.shape[-2:]
        sides = [p for p in range(1, height + 1) if height % p == 0 and width % p == 0]
        found = [(height // p, width // p) for p in sides]
        # A coarser grid than half of the tokens would be a quarter of the right one.
        fitting = [grid for grid in found if count // 2 <= grid[0] * grid[1] <= count]
        own = [] if self.batch.grid is None else [self.batch.grid]
        return list(dict.fromkeys(own + fitting))

    def _change_patches(self, grid: tuple[int, int], marked: Tensor) -> Tensor | None:
        """The states with the pixels of some patches changed."""
        pixels: Tensor = self.batch.arguments[self.batch.carrier]
        cells = marked.reshape(-1, 1, *grid).to(torch.float32)
        cells = torch.nn.functional.interpolate(cells, size=pixels.shape[-2:])
        return self._run_with(_moved(pixels, cells > 0))

    def _change_rows(self, marked: Tensor) -> Tensor | None:
        """The states with some tokens of a text, or some rows of features, changed."""
        carried: Tensor = self.batch.arguments[self.batch.carrier]
        assert self.batch.mask is not None
        if carried.is_floating_point():
            return self._run_with(_moved(carried, marked.reshape(*marked.shape, 1)))
        return self._run_with(torch.where(marked, _other_ids(carried, self.batch.mask), carried))

    def _all(self, count: int) -> Tensor:
        return torch.ones(self.batch.size, count, dtype=torch.bool)

    def _run_with(self, carried: Tensor) -> Tensor | None:
        return self.run({**self.batch.arguments, self.batch.carrier: carried})[0]


def _moved(values: Tensor, marked: Tensor) -> Tensor:
    """Values changed where they are marked, each by another amount: a norm would hide one."""
    numbers = torch.arange(values.numel(), device=values.device, dtype=torch.float64).cos()
    size = values.detach().abs().max() + 1
    return values + (marked * numbers.reshape(values.shape) * size).to(values.dtype)


def _other_ids(ids: Tensor, real: Tensor) -> Tensor:
    """For each id of a real token that of another one, which the model is sure to know."""
    known = ids[real].unique()
    if len(known) == 1:
        return ids - 1 if int(known) > 1 else ids + 1
    return known.roll(-1)[torch.searchsorted(known, ids.contiguous()).clamp(max=len(known) - 1)]


def _read(states: Tensor, tokens: _Tokens, batch: int) -> Places | None:
    """The places of tokens, if each has its own state; None otherwise."""
    total = batch * tokens.count
    numbers = torch.arange(total, device=states.device).reshape(batch, tokens.count)
    real = tokens.real.to(states.device)
    limit = VISIBLE * float(states.abs().max())
    # By layout and bit: states that change with the tokens that have the bit, and with the others.
    hits: dict[StateAxes, list[Hits]] = {axes: [] for axes in _possible_axes(states, batch)}
    for bit in range(max(1, (total - 1).bit_length())):
        is_set = ((numbers >> bit) & 1).bool()
        changed = []
        for marked in (is_set, ~is_set):
            found = tokens.change(marked & real)
            if found is None or found.shape != states.shape:
                return None
            changed.append((found - states).abs() > limit)
        for axes in [*hits]:
            by_set, by_unset = (axes.to_tokens(one, batch).any(-1) for one in changed)
            hits[axes].append((by_set, by_unset))
            if bool((by_set & by_unset).any()):
                del hits[axes]  # a state that comes from several tokens
        if not hits:
            return None
    for axes, own in hits.items():
        columns = _columns(own, numbers, real)
        if columns is not None:
            return Places(axes, own[0][0].shape[1], columns, tokens.grid)
    return None


def _possible_axes(states: Tensor, batch: int) -> list[StateAxes]:
    """The layouts that states may have, by their shape."""
    first, last = StateAxes(proven=True), StateAxes(batch_first=False, proven=True)
    if states.dim() > 3:
        found = [
            first,
            StateAxes(channels_first=True, proven=True),
            StateAxes(joint=True, proven=True),
        ]
    else:
        found = [first, last] if len(states) == batch else [last, first]
    return [axes for axes in found if axes.fits(states, batch)]


def _columns(hits: Sequence[Hits], numbers: Tensor, real: Tensor) -> tuple[int, ...] | None:
    """The column of each token; None unless every real token has one, the same in each sample.

    `hits` says which states (batch, columns) changed with the tokens that have a bit set, and with
    the others, by bit.
    """
    moved = torch.stack([a | b for a, b in hits]).any(0)
    if any(bool(((a == b) & moved).any()) for a, b in hits):
        return None  # a change that does not show
    number = torch.zeros_like(moved, dtype=torch.long)
    for bit, (is_set, _) in enumerate(hits):
        number |= is_set.long() << bit
    columns = [-1] * numbers.shape[1]
    for sample in range(len(numbers)):
        own = moved[sample].nonzero().flatten()
        own = own[number[sample, own].argsort()]
        if not torch.equal(number[sample, own], numbers[sample][real[sample]]):
            return None
        tokens = real[sample].nonzero().flatten()
        for token, column in zip(tokens.tolist(), own.tolist(), strict=True):
            if columns[token] not in (-1, column):
                return None
            columns[token] = column
    return None if -1 in columns else tuple(columns)
