"""Find the token streams of a model that nobody declared: one stack for each argument with tokens.

Bits follow each argument through a dry run (see `origins`). A chain of blocks whose input was
computed from arguments, and from no other chain, is where their token states enter. A chain that
reads both the states of others and a new argument (an image's features before a text) holds all
these streams itself. Streams count as found only if no operation reads an argument beside them.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from whyformer.engine.block_search import all_chains, first_call
from whyformer.engine.blocks import Chain
from whyformer.engine.dry_run import DryRun, dry_run
from whyformer.engine.entering_states import EnteringStates
from whyformer.engine.found_family import Home, is_ids, make_family
from whyformer.engine.stacks import carriers_of
from whyformer.models.families import Family

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
        known[key] = None if homes is None else make_family(module, arguments, homes)
    return known[key]


def _find_homes(
    module: nn.Module, arguments: Mapping[str, Any], carriers: Sequence[str], batch: int
) -> list[Home] | None:
    """The chains that the tokens of all arguments enter; None if there are not such chains."""
    bits = {name: 1 << i for i, name in enumerate(carriers)}
    dry = dry_run(module, arguments, batch, bits)
    if dry is None:
        return None
    chains = all_chains(dry, module)
    chains += _chains_without_attention(dry, chains, arguments, bits, batch)
    bit_of = {chain.blocks[0]: 1 << (len(bits) + i) for i, chain in enumerate(chains)}
    dry = dry_run(module, arguments, batch, bits, bit_of)
    if dry is None:
        return None
    entering = EnteringStates(module, arguments, [*bit_of])
    origins = {chain: _origin(dry, chain, arguments, entering, bits) for chain in chains}
    homes = []
    for chain, own in _choose(origins, bits, bit_of).items():
        counts = _arrange(arguments, entering, chain.blocks[0], own, batch)
        if counts is None:
            return None
        homes.append(Home(chain, *counts))
    if not homes:
        return None
    followed = {home.chain.blocks[0]: bit_of[home.chain.blocks[0]] for home in homes}
    dry = dry_run(module, arguments, batch, bits, followed, forget=True)
    if dry is None or dry.meetings:
        return None
    if len(homes) == 1:
        return [replace(homes[0], alone=_is_alone(dry, homes[0].chain))]
    return [replace(home, crosses=_crosses(dry, home, followed)) for home in homes]


def _chains_without_attention(
    dry: DryRun,
    chains: Sequence[Chain],
    arguments: Mapping[str, Any],
    bits: Mapping[str, int],
    batch: int,
) -> list[Chain]:
    """For ids that no chain reads, the last module that token states of them alone enter.

    Below it are recurrent networks, such as the one that reads the output of a transducer.
    """
    read = 0
    for chain in chains:
        read |= dry.calls[first_call(dry, chain)].origin
    found = []
    for name, bit in bits.items():
        value = arguments[name]
        if read & bit or not is_ids(value):
            continue
        shape = (batch, value.shape[1])
        alone = [c for c in dry.calls if c.takes and c.takes[:2] == shape and len(c.takes) == 3]
        alone = [call for call in alone if call.origin == bit]
        if alone:
            found.append(Chain((alone[-1].name,), alone[-1].name, whole=True))
    return found


def _origin(
    dry: DryRun,
    chain: Chain,
    arguments: Mapping[str, Any],
    entering: EnteringStates,
    bits: Mapping[str, int],
) -> int:
    """The bits of what enters a chain, without numbers that change nothing there.

    A model may join two arguments and cut them apart again, and the cut passes all bits on.
    """
    origin = dry.calls[first_call(dry, chain)].origin
    for name, bit in bits.items():
        floating = origin & bit and arguments[name].is_floating_point()
        if floating and not entering.columns(chain.blocks[0], name):
            origin &= ~bit
    return origin


def _choose(
    origins: Mapping[Chain, int], bits: Mapping[str, int], bit_of: Mapping[str, int]
) -> dict[Chain, tuple[str, ...]]:
    """The chains that token states enter, with what is new there; no chains if that is unclear."""
    homes: dict[Chain, tuple[str, ...]] = {}
    for chain, origin in origins.items():
        read = [name for name, bit in bits.items() if origin & bit]
        under = [one for one in homes if origin & bit_of[one.blocks[0]]]
        covered = {name for own in homes.values() for name in own}
        new = [name for name in read if name not in covered]
        if new:
            homes[chain] = (*(name for one in under for name in homes.pop(one)), *new)
        elif read and not under:
            return {}  # one argument in two places: whose tokens are they?
    found = {name for own in homes.values() for name in own}
    return homes if found == bits.keys() else {}


Arranged = tuple[dict[str, int], tuple[int, int]]


def _arrange(
    arguments: Mapping[str, Any],
    entering: EnteringStates,
    path: str,
    carriers: tuple[str, ...],
    batch: int,
) -> Arranged | None:
    """How many tokens each argument has in a chain, in order, and how many the model adds."""
    size, tokens, *_ = entering.shape(path)
    texts = [name for name in carriers if is_ids(arguments[name])]
    others = [name for name in carriers if name not in texts]
    if size != batch or len(texts) > 1 or (len(others) > 1 and not texts):
        return None
    if not texts:
        return {others[0]: tokens}, (0, 0)
    text, length = texts[0], arguments[texts[0]].shape[1]
    if length == tokens:  # other tokens are at placeholders in the text
        return {text: tokens}, (0, 0)
    more = tokens - length
    if not others:
        return _among_own_tokens(arguments, entering, path, text, more)
    if len(others) > 1:
        return None
    changed = entering.columns(path, others[0])
    if changed == [*range(more)]:
        return {others[0]: more, text: length}, (0, 0)
    if changed == [*range(length, tokens)]:
        return {text: length, others[0]: more}, (0, 0)
    return None


def _among_own_tokens(
    arguments: Mapping[str, Any], entering: EnteringStates, path: str, text: str, more: int
) -> Arranged | None:
    """The place of a text among tokens that the model adds: before it, after it, or both."""
    moves = (arguments[text] != entering.moved(text)).any(0).nonzero().flatten().tolist()
    changed = entering.columns(path, text)
    places = [ahead for ahead in range(more + 1) if changed == [ahead + i for i in moves]]
    if len(places) != 1:
        return None
    return {text: arguments[text].shape[1]}, (places[0], more - places[0])


def _is_alone(dry: DryRun, chain: Chain) -> bool:
    """Whether every attention from a chain's first block on runs in its blocks."""
    start = first_call(dry, chain)
    later = [one for one in dry.attentions if one[-1] > start]
    inside = [any(dry.calls[call].name in chain.blocks for call in one) for one in later]
    return chain.whole and all(inside)


def _crosses(dry: DryRun, home: Home, followed: Mapping[str, int]) -> bool:
    """Whether states of other homes enter between the home's first block and its exit."""
    last = max(i for i, call in enumerate(dry.calls) if call.name == home.chain.exit)
    return bool(dry.calls[last].left & ~followed[home.chain.blocks[0]])
