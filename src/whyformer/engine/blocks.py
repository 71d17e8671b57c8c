"""Find a model's transformer blocks: token states enter the first and leave the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from whyformer.errors import ModelError


@dataclass(frozen=True)
class Chain:
    """The blocks that token states go through, as paths of modules.

    Attributes:
        blocks: The module that starts each block.
        exit: The module whose output is read last.
        whole: Whether each block returns what enters the next one.
        outside: Modules with attention after the blocks.
        merged: Whether other encoders run before the blocks and compute some of their tokens.
    """

    blocks: tuple[str, ...]
    exit: str
    whole: bool
    outside: tuple[str, ...] = ()
    merged: bool = False


def find_blocks(module: nn.Module, path: str) -> list[nn.Module]:
    """Return the blocks at a path; `path.**` is the largest list of like modules below it."""
    inside = path.removesuffix("**").removesuffix(".")
    found = find_module(module, inside) if inside else module
    if found is None:
        lists = ", ".join(repr(name) for name, _ in _block_lists(module)) or "none"
        raise ModelError(
            f"the model has no module {path!r} to take as its blocks",
            argument="blocks",
            remedy=f"Lists of modules in it: {lists}",
        )
    if path.endswith("**"):
        found = _largest_list(found)
    return list(found.children()) if isinstance(found, (nn.ModuleList, nn.Sequential)) else [found]


def find_module(module: nn.Module, path: str) -> nn.Module | None:
    """Return the sub-module at a dotted path of the model or of its headless base model.

    A number is an index into a list; negative numbers count from its end.
    """
    for root in search_roots(module):
        found: nn.Module | None = root
        for step in path.split("."):
            found = _child(found, step)
            if found is None:
                break
        if found is not None and not (isinstance(found, nn.ModuleList) and not len(found)):
            return found
    return None


def search_roots(module: nn.Module) -> list[nn.Module]:
    """Return the model and, if it has one, its headless base model."""
    base = getattr(module, "base_model", None)
    return [module] if base is module or not isinstance(base, nn.Module) else [module, base]


def _child(module: nn.Module | None, step: str) -> nn.Module | None:
    if isinstance(module, (nn.ModuleList, nn.Sequential)) and step.lstrip("-").isdigit():
        children = list(module.children())
        return children[int(step)] if -len(children) <= int(step) < len(children) else None
    found = getattr(module, step, None)
    return found if isinstance(found, nn.Module) else None


def _block_lists(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every list of composite modules, with its path."""
    for name, candidate in module.named_modules():
        if isinstance(candidate, (nn.ModuleList, nn.Sequential)):
            children = list(candidate.children())
            if children and all(any(child.children()) for child in children):
                yield name, candidate


def _largest_list(module: nn.Module) -> nn.Module:
    """The list of modules of one class with most weights; of several classes if there is none."""
    best, most = None, (False, 0)
    for _, candidate in _block_lists(module):
        alike = len({type(child) for child in candidate.children()}) == 1
        size = (alike, sum(p.numel() for p in candidate.parameters()))
        if size > most:
            best, most = candidate, size
    if best is None:
        raise ModelError(
            f"cannot tell which modules of {type(module).__name__} are its transformer blocks: it"
            " has no list of like modules",
            argument="blocks",
            remedy="Name the module or list of modules that token states of shape (batch, tokens,"
            " hidden) go through: explain(..., blocks='path.to.blocks')",
        )
    return best
