"""Facts about a model that do not come from whyformer: its values, its blocks, its attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

SAME = 1e-7  # of the largest value: the model answers a sample alone as in a batch
SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
WHOLE = {F.scaled_dot_product_attention, F.multi_head_attention_forward}
# Arguments with one entry per token of the text, which padding makes longer.
COLUMNS = (
    *("input_ids", "attention_mask", "bbox", "mm_token_type_ids", "token_type_ids"),
    "image_embeds_position_mask",
)


def tensors_of(value: Any) -> Iterator[Tensor]:
    """Every floating tensor of an output, in order."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_of(one)


def one_sample(inputs: Mapping[str, Any], index: int, size: int) -> dict[str, Any]:
    """One sample of a batch, without its padding."""
    mask = inputs.get("attention_mask")
    real = int(mask[index].sum()) if isinstance(mask, Tensor) else None
    found = {}
    for name, value in inputs.items():
        if isinstance(value, Tensor) and value.ndim and value.shape[0] % size == 0:
            share = value.shape[0] // size  # patches of all images may lie in one list
            value = value[index * share : (index + 1) * share]
            if real is not None and name in COLUMNS:
                value = value[:, :real]
        found[name] = value
    return found


def is_packed(inputs: Mapping[str, Any]) -> bool:
    """Whether the patches of all images are one list without a batch axis: one sample."""
    return "grid_thw" in inputs and "input_ids" not in inputs


def plain_output(model: nn.Module, inputs: Mapping[str, Any]) -> Any:
    """The model's own output."""
    with torch.no_grad():
        return model(**inputs)


def answers_alike(model: nn.Module, inputs: Mapping[str, Any], index: int, size: int) -> bool:
    """Whether the model answers one sample of a batch as it answers the sample alone."""
    together = plain_output(model, inputs)
    alone = plain_output(model, one_sample(inputs, index, size))
    for ours, theirs in zip(tensors_of(together), tensors_of(alone), strict=True):
        if ours.ndim == 0 or ours.shape[0] != size or theirs.shape[0] != 1:
            continue
        row = ours[index]
        row = row[tuple(slice(0, n) for n in theirs.shape[1:])]
        scale = theirs.abs().max() if theirs.numel() else 1
        if not torch.allclose(row, theirs[0], rtol=0, atol=SAME * float(scale) + 1e-12):
            return False
    return True


@dataclass(frozen=True)
class Attended:
    """Which modules ran attention, and which blocks beside them mix tokens without it."""

    paths: tuple[str, ...]  # the innermost module of each attention call, in order
    blocks: tuple[str, ...]  # the entries of the module list that the tokens go through
    unseen: tuple[str, ...]  # blocks of that list that mix tokens and ran no attention
    first: tuple[Tensor, ...]  # what entered the first block and the modules around it


class AttentionWatch(TorchFunctionMode):
    """Calls `seen` with what each attention returned: its map, or its output if it is fused."""

    def __init__(self, seen: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func in WHOLE or (func in SOFTMAX and _is_map(args, kwargs or {})):
            self.seen(output)
        return output


def _is_map(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a softmax is over an attention map: (..., query, key)."""
    scores = args[0] if args else kwargs.get("input")
    axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    if not isinstance(scores, Tensor) or axis not in (-1, scores.ndim - 1):
        return False
    return scores.ndim >= 4 or (scores.ndim == 3 and scores.shape[1] == scores.shape[2])


@contextmanager
def hooks_on(model: nn.Module, before: Any, after: Any) -> Iterator[None]:
    """Hooks around every module, for the time of the context."""
    handles = []
    for name, module in model.named_modules():
        handles.append(
            module.register_forward_pre_hook(
                lambda m, a, k, name=name: before(name, a, k), with_kwargs=True, prepend=True
            )
        )
        handles.append(
            module.register_forward_hook(
                lambda m, a, k, out, name=name: after(name, out),
                with_kwargs=True,
                always_call=True,
            )
        )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def watch(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[Attended, Any]:
    """Where attention runs in a plain forward, and its output with the graph."""
    stack: list[str] = []
    paths: list[str] = []
    rank = 2 if is_packed(inputs) else 3  # of token states, at least
    entered: dict[str, Tensor] = {}
    left: dict[str, Tensor] = {}

    def before(name: str, args: Any, kwargs: Mapping[str, Any]) -> None:
        stack.append(name)
        states = next((t for t in tensors_of([*args, *kwargs.values()]) if t.ndim >= rank), None)
        if states is not None and states.requires_grad and name not in entered:
            states.retain_grad()
            entered[name] = states

    def after(name: str, output: Any) -> None:
        if stack and stack[-1] == name:
            stack.pop()
        states = next((t for t in tensors_of(output) if t.ndim >= 3), None)
        if states is not None:
            left.setdefault(name, states)

    with (
        torch.enable_grad(),
        hooks_on(model, before, after),
        AttentionWatch(lambda _: paths.append(stack[-1])),
    ):
        output = model(**inputs)
    if not paths:
        return Attended((), (), (), ()), output
    blocks = _main_blocks(model, inputs, paths, entered)
    silent = [b for b in blocks if not any(_inside(p, b) for p in paths)]
    unseen = tuple(b for b in silent if b in entered and _mixes(entered[b], left.get(b)))
    start = blocks[0] if blocks and blocks[0] in entered else paths[0]
    first = tuple(entered[p] for p in _prefixes(start) if p in entered)
    return Attended(tuple(paths), blocks, unseen, first), output


def _main_blocks(
    model: nn.Module, inputs: Mapping[str, Any], paths: list[str], entered: Mapping[str, Tensor]
) -> tuple[str, ...]:
    """The entries of the outermost module list around the first attention on the tokens.

    An image's features may be tokens of a text: the list is then the one that the text's tokens
    enter, and not that of the encoder that ran before it.
    """
    members = _list_members(model)
    lists = []
    for path in paths:
        around = [p for p in _prefixes(path) if p in members]
        lists.append(members[around[0]] if around else ())
    ids = inputs.get("input_ids")
    for blocks in dict.fromkeys(lists):
        first = entered.get(blocks[0]) if blocks else None
        if isinstance(ids, Tensor) and first is not None and first.shape[:2] == ids.shape:
            return blocks
    return lists[0]


def _prefixes(path: str) -> list[str]:
    steps = path.split(".")
    return [".".join(steps[: i + 1]) for i in range(len(steps))]


def _inside(path: str, block: str) -> bool:
    return path == block or path.startswith(f"{block}.")


def _list_members(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """The paths of all entries of the module list that a path belongs to."""
    found: dict[str, tuple[str, ...]] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) > 1:
            paths = tuple(f"{name}.{i}" if name else str(i) for i in range(len(module)))
            found |= dict.fromkeys(paths, paths)
    return found


def _mixes(states: Tensor, output: Tensor | None) -> bool:
    """Whether the last token that left a block depends on an earlier one that entered it."""
    if output is None or not output.requires_grad or output.shape != states.shape:
        return False
    if states.ndim < 3:
        return False
    (gradient,) = torch.autograd.grad(
        output[:, -1].sum(), states, retain_graph=True, allow_unused=True
    )
    return gradient is not None and bool((gradient[:, :-1].abs() > 1e-12).any())


def has_head(output: Any) -> bool:
    """Whether the output has scores of classes, of a vocabulary or of pairs."""
    names = [str(name) for name in output] if isinstance(output, Mapping) else []
    return any("logits" in name or name.endswith("_score") for name in names)
