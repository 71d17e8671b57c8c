"""Find the blocks of a model that nobody declared: by what ran, not by how it is written.

The blocks are the entries of a list of modules (or of nested lists) whose entries contain the
attentions that ran. Without such a list they are the calls around the attentions.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from torch import nn

from whyformer.engine.blocks import Chain
from whyformer.engine.dry_run import DryRun, dry_run
from whyformer.errors import ModelError

_LISTS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


_known: weakref.WeakKeyDictionary[nn.Module, dict[Any, Chain | None]] = weakref.WeakKeyDictionary()


def search_blocks(
    module: nn.Module, arguments: Mapping[str, Any], batch: int, inside: str | None = None
) -> Chain | None:
    """Return the blocks of a model, found once for each kind of inputs; None if there are none.

    `inside` is the path of the part whose blocks are meant, if other encoders run before it.
    """
    known = _known.setdefault(module, {})
    names = {name for name, _ in module.named_modules()}
    given = sorted(name for name, value in arguments.items() if value is not None)
    key = (inside, *given)
    chain = known.get(key)
    if key not in known or (chain is not None and not names.issuperset(chain.blocks)):
        dry = dry_run(module, arguments, batch)
        if dry is not None and inside is not None:
            dry = dry.inside(inside)
        chain = None if dry is None else choose_chain(dry, module)
        known[key] = chain and replace(chain, merged=inside is not None)
    return known[key]


def choose_chain(dry: DryRun, module: nn.Module) -> Chain | None:
    """Return the blocks that contain the attentions; raise ModelError if that is ambiguous."""
    lists = list(_list_chains(dry, module))
    spread = _spread_chain(dry)
    is_complete = spread is not None and spread[0].whole and not spread[1]
    found = _best_chain(dry, [*lists, spread] if spread and is_complete else lists)
    # Lists that states of another layout go through come after blocks that are whole, but before
    # mere attentions: the residual around an attention passes beside it.
    if found is None:
        others = replace(dry, loose=True)
        found = _best_chain(others, list(_list_chains(others, module)))
    if found is None and spread:
        found = _best_chain(dry, [spread])
    if found is not None or not dry.attentions:
        return found
    candidates = [chain.blocks[0].rpartition(".")[0] or chain.blocks[0] for chain, _ in lists]
    raise ModelError(
        f"cannot tell which modules of {type(module).__name__} are its transformer blocks: no list"
        f" of modules contains all of its {len(dry.attentions)} attentions",
        argument="blocks",
        remedy="Name the module or list of modules that token states of shape (batch, tokens,"
        " hidden) go through: explain(..., blocks='path.to.blocks')."
        + (f" Candidates: {', '.join(map(repr, candidates))}" if candidates else ""),
    )


def _best_chain(dry: DryRun, found: Sequence[tuple[Chain, Outside]]) -> Chain | None:
    """The chain that leaves out the fewest attentions; None if there is none."""
    # Attention after the blocks may be a pooler; before them there must be none.
    fitting = [one for one in found if all(a[-1] > _start(dry, one[0]) for a in one[1])]
    if not fitting:
        return None
    chain, outside = min(fitting, key=lambda one: len(one[1]))  # of equals, the first
    names = dict.fromkeys(dry.calls[one[-1]].name for one in outside)
    return replace(chain, outside=tuple(names))


Outside = list[tuple[int, ...]]  # the calls around each attention that a chain does not contain


def _list_chains(dry: DryRun, module: nn.Module) -> Iterator[tuple[Chain, Outside]]:
    """Chains of lists of modules, those with most attentions and most weights first."""
    lists = {name: part for name, part in module.named_modules() if isinstance(part, _LISTS)}
    entry_of = [_entries_around(dry, one, lists) for one in dry.attentions]

    def rank(name: str) -> tuple[int, int, int]:
        entries = [found[name] for found in entry_of if name in found]
        weights = sum(p.numel() for p in lists[name].parameters())
        return len(entries), len(set(entries)), weights

    used = {name for found in entry_of for name in found} if entry_of else set(lists)
    for name in sorted(used, key=rank, reverse=True):
        chain = _list_chain(dry, name, lists, strict=not entry_of)
        if chain is not None:
            outside = zip(dry.attentions, entry_of, strict=True)
            yield chain, [one for one, found in outside if name not in found]


def _entries_around(
    dry: DryRun, attention: tuple[int, ...], lists: Mapping[str, nn.Module]
) -> dict[str, str]:
    """The lists around an attention, and the entry of each in which it ran."""
    found: dict[str, str] = {}
    for call in attention:
        steps = dry.calls[call].name.split(".")
        for i in range(len(steps)):
            name = ".".join(steps[:i])
            # The outermost call counts: a shared module has the name of its first owner.
            if name in lists and name not in found:
                found[name] = steps[i]
    return found


def _list_chain(
    dry: DryRun, name: str, lists: Mapping[str, nn.Module], strict: bool
) -> Chain | None:
    """The chain of a list's entries that ran; None if token states do not go through them.

    `strict`: no attention ran, so that the entries alone must look like blocks.
    """
    spans = _entry_spans(dry, name, lists[name])
    if not spans or not dry.gives_states(spans[-1][1]):
        return None
    if strict:
        composite = any(part for child in lists[name].children() for part in child.children())
        if not composite or not all(dry.passes_states(a) for a, _ in spans):
            return None
    whole = all(a == b for a, b in spans) and _follow(dry, [a for a, _ in spans], exactly=True)
    if not whole:
        # A block may be spread over several lists: norms, attentions and feed-forward layers.
        parent = name.rpartition(".")[0]
        beside = [
            _entry_spans(dry, other, modules)
            for other, modules in lists.items()
            if other != name and other.rpartition(".")[0] == parent
        ]
        equal = [spans, *(other for other in beside if len(other) == len(spans))]
        joined = [
            (min(a for a, _ in parts), max(b for _, b in parts))
            for parts in zip(*equal, strict=True)
        ]
        # A list of patch embeddings starts at pixels: those are not token states yet.
        spans = spans if dry.takes_input(joined[0][0]) else joined
    if dry.loose and dry.takes_input(spans[0][0]):
        return None
    return Chain(
        tuple(dry.calls[start].name for start, _ in spans), dry.calls[spans[-1][1]].name, whole
    )


def _entry_spans(dry: DryRun, name: str, modules: nn.Module) -> list[tuple[int, int]]:
    """The first and the last call of each entry of a list, in the order they ran.

    Empty if an entry ran on something else than token states.
    """
    spans = []
    for entry, _ in modules.named_children():
        calls = _top_calls(dry, f"{name}.{entry}" if name else entry)
        states = [c for c in calls if dry.takes_states(c)]
        if calls and not states:
            return []
        if states:
            spans.append((states[0], calls[-1]))
    return sorted(spans)


def _top_calls(dry: DryRun, name: str) -> list[int]:
    """The calls of a module; if it is only a list, the outermost calls of the modules in it."""
    own = [i for i, call in enumerate(dry.calls) if call.name == name]
    if own:
        return own
    below = {i for i, call in enumerate(dry.calls) if call.name.startswith(f"{name}.")}
    return [i for i in sorted(below) if not below.intersection(dry.calls[i].outer)]


def _spread_chain(dry: DryRun) -> tuple[Chain, Outside] | None:
    """The chain of the calls around the attentions, for blocks that are in no list.

    States must go from each to the next, so that two towers are not taken for one.
    """
    chosen: list[int] = []
    for attention in dry.attentions:
        ways = [c for c in attention if dry.passes_states(c)]
        # The outermost call that has this attention alone; else the innermost one.
        alone = [c for c in ways if sum(c in other for other in dry.attentions) == 1]
        block = alone[0] if alone else ways[-1] if ways else None
        if block is None or block in chosen:
            continue
        if not chosen or _follow(dry, [chosen[-1], block]):
            chosen.append(block)
    if not chosen:
        return None
    names = tuple(dry.calls[c].name for c in chosen)
    outside = [one for one in dry.attentions if not set(one) & set(chosen)]
    return Chain(names, names[-1], _follow(dry, chosen, exactly=True)), outside


def _follow(dry: DryRun, calls: Sequence[int], exactly: bool = False) -> bool:
    """Whether each call gets what the one before returned, itself or through other modules."""
    for before, call in pairwise(calls):
        source = dry.calls[call].fed_by
        while not exactly and source is not None and source > before:
            source = dry.calls[source].fed_by
        if source != before:
            return False
    return True


def _start(dry: DryRun, chain: Chain) -> int:
    """The first call of a chain."""
    return min(i for i, call in enumerate(dry.calls) if call.name == chain.blocks[0])
