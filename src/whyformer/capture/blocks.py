"""Where a model's blocks are: the token states enter the first and leave the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from whyformer.errors import ModelError
from whyformer.families import Family


@dataclass(frozen=True)
class Blocks:
    """The blocks in order, and whether samples come before tokens in their input."""

    chain: tuple[nn.Module, ...]
    batch_first: bool = True

    @property
    def first(self) -> nn.Module:
        """The block that token states enter."""
        return self.chain[0]

    @property
    def last(self) -> nn.Module:
        """The block that the head reads."""
        return self.chain[-1]


def find_blocks(
    module: nn.Module,
    family: Family | None,
    path: str | None = None,
    batch_first: bool | None = None,
) -> Blocks:
    """The blocks named by the caller, else by the family, else the largest list of like modules."""
    found = _named(module, path) if path else None
    if path and found is None:
        lists = ", ".join(repr(name) for name, _ in _lists(module)) or "none"
        raise ModelError(
            f"the model has no module {path!r} to take as its blocks. Lists of modules in it:"
            f" {lists}."
        )
    if found is None and family is not None:
        found = _named(module, family.blocks)
    if found is None:
        found = _largest(module)
    chain = list(found.children()) if isinstance(found, (nn.ModuleList, nn.Sequential)) else [found]
    if batch_first is None:
        attentions = [m for m in chain[0].modules() if isinstance(m, nn.MultiheadAttention)]
        batch_first = all(m.batch_first for m in attentions)
    return Blocks(tuple(chain), batch_first)


def _named(module: nn.Module, path: str) -> nn.Module | None:
    """The sub-module at a dotted path, from the model or from its headless base model."""
    for root in (module, getattr(module, "base_model", None)):
        if isinstance(root, nn.Module):
            try:
                found = root.get_submodule(path)
            except AttributeError:
                continue
            if not isinstance(found, nn.ModuleList) or len(found):
                return found
    return None


def _lists(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Lists of composite modules of one class: what blocks look like."""
    for name, candidate in module.named_modules():
        if isinstance(candidate, (nn.ModuleList, nn.Sequential)):
            children = list(candidate.children())
            if len({type(child) for child in children}) == 1 and any(children[0].children()):
                yield name, candidate


def _largest(module: nn.Module) -> nn.Module:
    best, most = None, 0
    for _, candidate in _lists(module):
        size = sum(p.numel() for p in candidate.parameters())
        if size > most:
            best, most = candidate, size
    if best is None:
        raise ModelError(
            f"cannot tell which part of {type(module).__name__} are its transformer blocks: it has"
            " no list of like modules. Name the module (or list of modules) that token states of"
            " shape (batch, tokens, hidden) go through: explain(..., blocks='path.to.blocks')."
        )
    return best
