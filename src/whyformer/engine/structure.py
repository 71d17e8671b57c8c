"""The structure of an undeclared model: which maps form a layer, and what else mixes tokens.

One forward pass in which every attention map keeps only its diagonal. Tokens then mix only by other
means (convolutions, state spaces, linear attention), which the gradient of a block's output shows.
Each map also gets its own leaf in the graph: a later map that does not depend on it ran side by
side with it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.attribution import Reason
from whyformer.engine.forward import Trace, run_forward
from whyformer.engine.graph_walk import LeafFinder
from whyformer.engine.hidden import cut_reasons
from whyformer.engine.passes.forward_only import make_interception
from whyformer.engine.recording import Layers, current_pair, is_below
from whyformer.engine.rules.attention_maps import recording_table
from whyformer.engine.rules.ledger import Ledger, Place
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.fused_attention import FusedCall, repeat_shared_keys
from whyformer.engine.run import Run
from whyformer.engine.scope import parts_with_hooks
from whyformer.engine.state_hooks import state_hooks
from whyformer.engine.token_mixing import (
    lowest_states,
    mixing_reasons,
    module_names,
    slopes_at,
    weights_like,
)
from whyformer.errors import ModelError
from whyformer.inputs.packed import GRID
from whyformer.models.families import Pair


@dataclass(frozen=True)
class Structure:
    """How the attention maps of a model follow one another.

    Attributes:
        layers: The numbers of the maps of each layer; maps side by side are one layer.
        samples: The one sample that each map is about, None for a map of the whole batch.
        ordered: Whether each map is known to have samples before heads, if they share an axis.
        reasons: Blocks that mix tokens by other means than attention, or with gradients off.
        apart: Names of modules with attention that does not read the token states.
        above: Names of modules with attention after the last block.
    """

    layers: Layers
    samples: tuple[int | None, ...]
    ordered: tuple[bool, ...] = ()
    reasons: tuple[Reason, ...] = ()
    apart: tuple[str, ...] = ()
    above: tuple[str, ...] = ()

    @property
    def is_joint(self) -> bool:
        """Whether some layer has several maps."""
        return any(len(group) > 1 for group in self.layers)


_known: weakref.WeakKeyDictionary[nn.Module, dict[Any, Structure]] = weakref.WeakKeyDictionary()


def find_structure(run: Run) -> Structure | None:
    """Return the structure of a model that no family declares; None if one does.

    It is found once for each module, kind of inputs and batch size.
    """
    if run.family is not None and not run.family.found:
        return None
    known = _known.setdefault(run.module, {})
    # Packed images have a map each.
    images = str(run.batch.arguments[GRID].tolist()) if run.batch.packed else ""
    key = (run.batch.size, images, *sorted(run.batch.arguments), *_block_names(run))
    if key not in known:
        known[key] = _read_structure(run)
    return known[key]


def forget_structure(module: nn.Module) -> None:
    """Forget what is known about a module, because it ran differently than before."""
    _known.pop(module, None)


def check_streams(run: Run) -> None:
    """Raise ModelError if attention ran that does not read the token states: another stream."""
    structure = find_structure(run)
    if structure is None or not structure.apart:
        return
    blocks = ", ".join(_block_names(run)[:1])
    raise ModelError(
        f"{run.name} has several token streams: besides the blocks from '{blocks}' on, attention"
        f" runs in {', '.join(structure.apart)} on other tokens. No known family covers it, so the"
        " scores of one stream would not be the answer",
        argument="model",
        remedy="Declare its streams once with whyformer.models.families.declare, or explain one"
        " part alone: pass that part with a target for its output",
    )


@dataclass(frozen=True)
class _SeenMap:
    """An attention map, as it ran."""

    pair: tuple[Pair, bool]
    place: Place | None
    shape: tuple[int, ...]
    above: int  # bits of the maps that it depends on
    sources: tuple[Tensor, ...]  # what it was computed from, if its sample must be found
    tracked: bool
    module: str


class _Watch:
    """Cuts every attention map down to its diagonal, and notes what it depends on."""

    def __init__(self, run: Run, trace: Trace, ledger: Ledger, running: list[str]) -> None:
        self.seen: list[_SeenMap] = []
        self._run, self._trace, self._ledger, self._running = run, trace, ledger, running
        self._leaves = LeafFinder()

    def record(self, attention: Tensor) -> Tensor:
        if is_below(self._trace, self._run.stacks):
            return attention
        leaf = self._note((attention,), tuple(attention.shape))
        kept = attention.detach()
        if kept.shape[-1] == kept.shape[-2]:
            kept = kept * torch.eye(kept.shape[-1], dtype=kept.dtype, device=kept.device)
        return kept + leaf

    def hold(self, call: FusedCall, run: Callable[[FusedCall], Tensor]) -> Tensor | None:
        if is_below(self._trace, self._run.stacks):
            return run(call)
        shape = (*call.query.shape[:-1], call.key.shape[-2])
        leaf = self._note((call.query, call.key), shape)
        if shape[-1] == shape[-2]:
            return repeat_shared_keys(call).value.expand(*shape[:-1], -1) + leaf
        return run(call._replace(query=call.query.detach(), key=call.key.detach())) + leaf

    def _note(self, sources: tuple[Tensor, ...], shape: tuple[int, ...]) -> Tensor:
        """Note a map, and return the leaf that stands for it in the graph."""
        leaf = tags.add_tag(
            torch.zeros((), dtype=sources[0].dtype, device=sources[0].device).requires_grad_(),
            tags.LEAF,
        )
        above = 0
        for tensor in sources:
            above |= self._leaves.below(tensor)
        whole = self._run.batch.size == 1 or (len(shape) == 4 and shape[0] == self._run.batch.size)
        tracked = any(tensor.requires_grad for tensor in sources)
        self.seen.append(
            _SeenMap(
                current_pair(self._trace, self._run.stacks),
                self._ledger.place,
                shape,
                above,
                () if whole else sources,
                tracked,
                self._running[-1] if self._running else "",
            )
        )
        self._leaves.add(leaf)
        return leaf


def _read_structure(run: Run) -> Structure:
    trace, ledger = Trace(), run.new_ledger()
    running: list[str] = []
    watch = _Watch(run, trace, ledger, running)
    interception = make_interception(run, recording_table(watch.record, watch.hold), ledger)
    hooks = state_hooks(run, trace, ledger) + _name_hooks(run.module, running)
    run_forward(run, trace, interception, hooks, run.batch.arguments)
    # Where encoders run before the blocks, keys of another length are their tokens, read directly.
    merged = run.stacks.merged
    apart = dict.fromkeys(
        one.module
        for one in watch.seen
        if not one.tracked or (merged and one.shape[-1] != one.shape[-2])
    )
    above = dict.fromkeys(one.module for one in watch.seen if one.place is None)
    mixing = mixing_reasons(run, trace, {one.place.block for one in watch.seen if one.place})
    return Structure(
        _group(watch.seen),
        tuple(_sample_of(run, trace, one) for one in watch.seen),
        tuple(_is_ordered(run, trace, one) for one in watch.seen),
        (*mixing, *cut_reasons(ledger)),
        tuple(apart),
        tuple(above),
    )


def _name_hooks(module: nn.Module, running: list[str]) -> list[tuple[nn.Module, str, Any]]:
    """Hooks that keep the names of the modules that run now, innermost last."""
    hooks: list[tuple[nn.Module, str, Any]] = []
    for part, name in parts_with_hooks(module).items():

        def before(m: nn.Module, args: Any, kwargs: Any, name: str = name) -> None:
            running.append(name)

        def after(m: nn.Module, args: Any, output: Any) -> None:
            running.pop()

        hooks += [(part, "before", before), (part, "after", after)]
    return hooks


def _group(seen: Sequence[_SeenMap]) -> Layers:
    """Maps of one pair of stacks that follow one another without depending on one another."""
    groups: list[list[int]] = []
    for i, one in enumerate(seen):
        last = groups[-1] if groups else []
        bits = sum(1 << j for j in last)
        beside = (
            last
            and seen[last[0]].pair == one.pair
            and seen[last[0]].shape[-2:] == one.shape[-2:]
            and not one.above & bits
        )
        if beside:
            last.append(i)
        else:
            groups.append([i])
    return tuple(map(tuple, groups))


def _sample_of(run: Run, trace: Trace, seen: _SeenMap) -> int | None:
    """The one sample that a map depends on; None if it depends on several, or is of all."""
    return _only_sample(run, trace, seen, seen.sources) if seen.sources else None


def _is_ordered(run: Run, trace: Trace, seen: _SeenMap) -> bool:
    """Whether the first entries of a map's first axis, heads or samples, are all of sample 0."""
    if not seen.sources or _sample_of(run, trace, seen) is not None:
        return bool(seen.sources)
    heads = seen.shape[0] // run.batch.size
    first = tuple(one[:heads] for one in seen.sources)
    return heads > 0 and _only_sample(run, trace, seen, first) == 0


def _only_sample(run: Run, trace: Trace, seen: _SeenMap, tensors: tuple[Tensor, ...]) -> int | None:
    """The one sample that some tensors depend on, by the gradient at the block's input."""
    if seen.place is None:
        return None
    entering = trace.entering[seen.place.block]
    value = sum((one * weights_like(one)).sum() for one in tensors)
    samples = torch.zeros(run.batch.size, dtype=torch.bool)
    try:
        slopes = slopes_at(value, [entering, *lowest_states(trace, seen.place.block)])
    except RuntimeError:
        return None  # the model overwrites what the gradient needs
    for slope in slopes:
        rows = run.put_batch_first(slope)
        if len(rows) != run.batch.size:
            return None  # windows or regions share the axis of the samples
        samples |= (rows != 0).flatten(1).any(1).cpu()
    return int(samples.nonzero()[0]) if int(samples.sum()) == 1 else None


def _block_names(run: Run) -> tuple[str, ...]:
    return module_names(
        run, [block for track in run.stacks.tracks.values() for block in track.chain]
    )
