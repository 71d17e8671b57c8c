"""Find the token streams of a model that nobody declared: one stack for each argument with tokens.

Bits follow each argument through a dry run (see `origins`). A chain of blocks whose input was
computed from arguments, and from no other chain, is where their token states enter. A chain that
reads both the states of others and a new argument (an image's features before a text) holds all
these streams itself. Streams are only found if nothing else in the model reads the arguments.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.block_search import all_chains, first_call
from whyformer.engine.blocks import Chain
from whyformer.engine.dry_run import DryRun, dry_run
from whyformer.engine.scope import add_hooks
from whyformer.engine.stacks import carriers_of
from whyformer.engine.state_hooks import first_floating
from whyformer.inputs.images import patch_of
from whyformer.models.families import Family, Source, Stack

# The stream of each argument; every other argument is "tokens".
STREAMS = {
    "input_ids": "text",
    "inputs_embeds": "text",
    "pixel_values": "image",
    "pixel_values_videos": "image",
    "visual_feats": "image",
    "visual_embeds": "image",
    "input_features": "audio",
    "input_values": "audio",
    "decoder_input_ids": "generated",
    "decoder_inputs_embeds": "generated",
    "future_values": "generated",
}
MAIN = ("source", "text", "image", "audio", "tokens")  # the first of these is the main stream
MOST_PREFIX = 8  # class and register tokens before an image's patches


@dataclass(frozen=True)
class _Home:
    """A chain of blocks that tokens of some arguments enter."""

    chain: Chain
    carriers: tuple[str, ...]  # in the order of their tokens
    counts: Mapping[str, int]  # how many tokens each argument has
    crosses: bool = False  # whether its blocks read other homes' states


_known: weakref.WeakKeyDictionary[nn.Module, dict[Any, Family | None]] = weakref.WeakKeyDictionary()


def search_streams(module: nn.Module, arguments: Mapping[str, Any]) -> Family | None:
    """Return the streams as a family, found once for each kind of inputs; None if not all are."""
    carriers = carriers_of(arguments)
    sizes = {len(arguments[name]) for name in carriers}
    if len(sizes) != 1:
        return None
    given = sorted(name for name, value in arguments.items() if value is not None)
    shapes = [tuple(arguments[name].shape[1:]) for name in carriers]
    known = _known.setdefault(module, {})
    key = (*given, *shapes)
    if key not in known:
        homes = _find_homes(module, arguments, carriers, sizes.pop())
        known[key] = None if homes is None else _family(module, arguments, homes)
    return known[key]


def _find_homes(
    module: nn.Module, arguments: Mapping[str, Any], carriers: Sequence[str], batch: int
) -> list[_Home] | None:
    """The chains that the tokens of all arguments enter; None if there are not such chains."""
    bits = {name: 1 << i for i, name in enumerate(carriers)}
    dry = dry_run(module, arguments, batch, bits)
    if dry is None:
        return None
    chains = all_chains(dry, module, batch)
    bit_of = {chain.blocks[0]: 1 << (len(bits) + i) for i, chain in enumerate(chains)}
    dry = dry_run(module, arguments, batch, bits, bit_of)
    if dry is None:
        return None
    chosen = _choose(dry, chains, bits, bit_of)
    if chosen is None:
        return None
    homes = [_arrange(module, arguments, dry, chain, own, batch) for chain, own in chosen.items()]
    placed = [home for home in homes if home is not None]
    if len(placed) != len(homes):
        return None
    entries = {home.chain.blocks[0]: bit_of[home.chain.blocks[0]] for home in placed}
    dry = dry_run(module, arguments, batch, bits, entries, forget=True)
    if dry is None or dry.meetings:
        return None
    return [replace(home, crosses=_crosses(dry, home, entries)) for home in placed]


def _choose(
    dry: DryRun, chains: Sequence[Chain], bits: Mapping[str, int], bit_of: Mapping[str, int]
) -> dict[Chain, tuple[str, ...]] | None:
    """The chains that token states enter, each with the arguments that are new there."""
    homes: dict[Chain, tuple[str, ...]] = {}
    for chain in chains:
        origin = dry.calls[first_call(dry, chain)].origin
        read = [name for name, bit in bits.items() if origin & bit]
        under = [one for one in homes if origin & bit_of[one.blocks[0]]]
        covered = {name for own in homes.values() for name in own}
        new = [name for name in read if name not in covered]
        if not new:
            if read and not under:
                return None  # one argument in two places: whose tokens are they?
            continue
        moved = [name for one in under for name in homes.pop(one)]
        homes[chain] = (*moved, *new)
    found = {name for own in homes.values() for name in own}
    return homes if found == bits.keys() else None


def _arrange(
    module: nn.Module,
    arguments: Mapping[str, Any],
    dry: DryRun,
    chain: Chain,
    carriers: tuple[str, ...],
    batch: int,
) -> _Home | None:
    """The chain with whose tokens enter it, in order; None if that cannot be told."""
    shape = dry.calls[first_call(dry, chain)].takes
    if shape is None or shape[0] != batch:
        return None
    tokens = shape[1]
    texts = [name for name in carriers if _is_ids(arguments[name])]
    others = [name for name in carriers if name not in texts]
    length = arguments[texts[0]].shape[1] if texts else 0
    if len(texts) == 1 and length == tokens:  # other tokens are at placeholders in the text
        return _Home(chain, (texts[0],), {texts[0]: tokens})
    if not texts and len(others) == 1:
        return _Home(chain, carriers, {others[0]: tokens})
    if len(texts) != 1 or len(others) != 1:
        return None
    changed = _changed_columns(module, arguments, chain, others[0])
    counts = {texts[0]: length, others[0]: tokens - length}
    if changed == [*range(tokens - length)]:
        return _Home(chain, (others[0], texts[0]), counts)
    if changed == [*range(length, tokens)]:
        return _Home(chain, (texts[0], others[0]), counts)
    return None


def _changed_columns(
    module: nn.Module, arguments: Mapping[str, Any], chain: Chain, name: str
) -> list[int]:
    """The tokens that enter a chain otherwise if the numbers of an argument change."""
    entered: list[Tensor] = []

    def before(part: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = first_floating(args, kwargs)
        if states is not None:
            entered.append(states.detach().clone())

    entry = module.get_submodule(chain.blocks[0])
    first = []
    for value in (arguments[name], arguments[name].roll(1, -1) + 1):
        entered.clear()
        with add_hooks([(entry, "before", before)]), torch.no_grad():
            module(**{**arguments, name: value})
        first.append(entered[0])
    return (first[0] != first[1]).any(-1).any(0).nonzero().flatten().tolist()


def _crosses(dry: DryRun, home: _Home, entries: Mapping[str, int]) -> bool:
    """Whether states of other homes enter between the home's first block and its exit."""
    last = max(i for i, call in enumerate(dry.calls) if call.name == home.chain.exit)
    return bool(dry.calls[last].left & ~entries[home.chain.blocks[0]])


def _is_ids(value: Tensor) -> bool:
    return not value.is_floating_point() and value.ndim == 2


# -- what was found, as a family -------------------------------------------------------------------


def _family(module: nn.Module, arguments: Mapping[str, Any], homes: Sequence[_Home]) -> Family:
    names = _stream_names([name for home in homes for name in home.carriers])
    sources, stacks, prefix = [], [], 0
    for home in homes:
        for name in home.carriers:
            source, before = _source(module, arguments, home, name, names[name])
            sources.append(source)
            prefix = prefix or before
        stacks.append(
            Stack(
                tuple(names[name] for name in home.carriers),
                paths=home.chain.blocks,
                leaves=home.chain.exit,
                whole=home.chain.whole,
                crosses=home.crosses,
            )
        )
    streams = [source.stream for source in sources]
    return Family(
        name="default",
        stream=next((one for one in MAIN if one in streams), streams[0]),
        sources=tuple(sources),
        stacks=tuple(stacks),
        prefix_tokens=lambda config: prefix,
        found=True,
    )


def _stream_names(carriers: Sequence[str]) -> dict[str, str]:
    """The stream of each argument; an argument whose stream another one has keeps its own name."""
    names: dict[str, str] = {}
    for carrier in carriers:
        stream = STREAMS.get(carrier, "tokens")
        names[carrier] = carrier if stream in names.values() else stream
    writes = "generated" in names.values()
    return {k: "source" if v == "text" and writes else v for k, v in names.items()}


def _source(
    module: nn.Module, arguments: Mapping[str, Any], home: _Home, name: str, stream: str
) -> tuple[Source, int]:
    """How an argument is read, and how many tokens come before an image's patches."""
    value: Tensor = arguments[name]
    if _is_ids(value):
        mask = "decoder_attention_mask" if name.startswith("decoder_") else "attention_mask"
        passed = arguments.get(mask)
        fits = isinstance(passed, Tensor) and passed.shape == value.shape
        return Source(stream, name, mask=mask if fits else None), 0
    tokens = home.counts[name]
    grid = _grid(module, home, value) if value.ndim == 4 else None
    if grid is None or not 0 <= tokens - grid[0] * grid[1] <= MOST_PREFIX:
        return Source(stream, name, kind="numbers", tokens=tokens), 0
    found = Source(stream, name, kind="numbers", tokens=tokens, grid=lambda config, shape: grid)
    return found, tokens - grid[0] * grid[1]


def _grid(module: nn.Module, home: _Home, pixels: Tensor) -> tuple[int, int] | None:
    """(rows, columns) of an image's patches, by the innermost part that knows their size."""
    steps = home.chain.blocks[0].split(".")
    for end in range(len(steps) - 1, -1, -1):
        patch = patch_of(module.get_submodule(".".join(steps[:end])))
        if patch is not None:
            return pixels.shape[-2] // patch[0], pixels.shape[-1] // patch[1]
    return None
