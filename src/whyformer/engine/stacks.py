"""A model's stacks: sequences of token states, and the blocks that each runs through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from whyformer.engine.blocks import Chain, find_blocks, find_module, search_roots
from whyformer.engine.state_axes import Places, StateAxes
from whyformer.errors import ModelError
from whyformer.models.families import Family, Pair, Stack
from whyformer.models.parts import modules_of

ANYWHERE = "**"
# Arguments that each bring their own tokens.
CARRIERS = (
    "input_ids",
    "inputs_embeds",
    "pixel_values",
    "visual_feats",
    "visual_embeds",
    "input_features",
    "input_values",
    "decoder_input_ids",
    "decoder_inputs_embeds",
    "pixel_values_videos",
    "past_values",
    "future_values",
)

# Settings of a config: the id in the text that stands for a token of another stream.
PLACEHOLDERS = (
    *(f"{stream}_token_id" for stream in ("image", "img", "video", "audio", "speech")),
    *(f"{stream}_token_index" for stream in ("image", "video", "audio", "speech")),
    *("image_pad_token_id", "audio_pad_token_id", "image_patch_id", "media_placeholder_token_id"),
)
# The argument that marks the tokens of another stream in the text, where no id stands for them.
MARKS = "image_embeds_position_mask"


@dataclass(frozen=True)
class Track:
    """One stack found in a model."""

    stack: Stack
    chain: tuple[nn.Module, ...]  # its blocks in order
    exit: nn.Module  # whose output the head reads
    whole: bool = True  # whether each block returns what enters the next one

    @property
    def name(self) -> str:
        """The stack's name."""
        return self.stack.name


@dataclass(frozen=True)
class Stacks:
    """All stacks of a model, and the modules around its attention.

    Attributes:
        tracks: The stacks, by name.
        attention_modules: (module, pairs of stacks whose tokens its attention mixes).
        axes: How token states are laid out.
        places: Where the stream's tokens stand among them, in an undeclared model, if found.
        merged: Whether the first blocks read tokens that other encoders computed, such as an
            image's features at the placeholders in a text.
        outside: Paths of modules with attention after the blocks, in an undeclared model.
    """

    tracks: Mapping[str, Track]
    attention_modules: tuple[tuple[nn.Module, tuple[Pair, ...]], ...] = ()
    axes: StateAxes = field(default_factory=StateAxes)
    outside: tuple[str, ...] = ()
    merged: bool = False
    places: Places | None = None

    @property
    def batch_first(self) -> bool:
        """Whether token states are (batch, tokens, hidden)."""
        return self.axes.batch_first

    @property
    def only(self) -> Track | None:
        """The stack, if the model has only one."""
        return next(iter(self.tracks.values())) if len(self.tracks) == 1 else None

    def reads_another(self, name: str) -> bool:
        """Return whether a block of this stack attends to another stack."""
        if self.tracks[name].stack.crosses:
            return True
        crossing = [
            part
            for part, pairs in self.attention_modules
            if any(asking != answering for asking, answering in pairs)
        ]
        if not crossing:
            return False
        inside = {part for block in self.tracks[name].chain for part in block.modules()}
        return not inside.isdisjoint(crossing)


def find_stacks(
    module: nn.Module,
    stream: str,
    family: Family | None,
    path: str | None = None,
    batch_first: bool | None = None,
    chain: Chain | None = None,
) -> Stacks:
    """Return the stacks that the family declares; otherwise one stack.

    Its blocks are at `path`; else those of `chain`; else the largest list of like modules.
    """
    if path is not None or is_undeclared(module, family):
        stacks: tuple[Stack, ...] = (Stack((stream,), path or ANYWHERE),)
    else:
        assert family is not None
        stacks = family.all_stacks
    tracks = [_track(module, stack, chain) for stack in stacks]
    chains = [block for track in tracks for block in track.chain]
    if batch_first is None:
        attentions = [
            m for block in chains for m in modules_of(block) if isinstance(m, nn.MultiheadAttention)
        ]
        batch_first = all(m.batch_first for m in attentions)
    labels = family.attention if family is not None and len(tracks) > 1 else {}
    return Stacks(
        {track.name: track for track in tracks},
        _attention_modules(module, labels),
        StateAxes(batch_first, proven=any(stack.spread for stack in stacks)),
        chain.outside if chain else (),
        chain.merged if chain else any(stack.merged for stack in stacks),
    )


def is_undeclared(module: nn.Module, family: Family | None) -> bool:
    """Return whether nobody declared where the blocks are; another head may move them."""
    return family is None or (not family.stacks and find_module(module, family.blocks) is None)


def _track(module: nn.Module, stack: Stack, found: Chain | None = None) -> Track:
    if found is not None:
        blocks = tuple(module.get_submodule(path) for path in found.blocks)
        return Track(stack, blocks, module.get_submodule(found.exit), found.whole)
    chain = [module.get_submodule(path) for path in stack.paths]
    if not (stack.paths or stack.hidden):
        chain = find_blocks(module, stack.blocks)
    leaves = find_module(module, stack.leaves) if stack.leaves else chain[-1]
    if leaves is None:
        raise ModelError(
            f"{type(module).__name__} has no module {stack.leaves!r} to read states from",
            argument="model",
            remedy="Correct `leaves` in the declaration of its family",
        )
    return Track(stack, tuple(chain), leaves, stack.whole)


def _attention_modules(
    module: nn.Module, labels: Mapping[str, Pair | tuple[Pair, Pair]]
) -> tuple[tuple[nn.Module, tuple[Pair, ...]], ...]:
    """Modules around attention, each with the pairs of stacks that its calls mix, in order."""
    found: dict[nn.Module, tuple[Pair, ...]] = {}
    for path, label in labels.items():
        pairs = label if isinstance(label[0], tuple) else (label,)
        for root in search_roots(module):
            for part in _modules_at(root, path.split(".")):
                # A list of modules is never called; its entries are.
                called = part if isinstance(part, nn.ModuleList) else (part,)
                found |= dict.fromkeys(called, pairs)
    return tuple(found.items())


def _modules_at(module: nn.Module, steps: Sequence[str]) -> Iterator[nn.Module]:
    """The modules at a path of a family's table; * is any one step, ** one or more."""
    if not steps:
        yield module
        return
    step, rest = steps[0], steps[1:]
    for name, child in module.named_children():
        if step in ("*", "**", name):
            yield from _modules_at(child, rest)
        if step == "**":
            yield from _modules_at(child, steps)


def merging_part(module: nn.Module, arguments: Mapping[str, Any]) -> str | None:
    """Return the path of the language model that reads text with placeholders for other tokens.

    None unless the config names the ids of placeholders and the text has some, or there is only
    text, or an argument marks the placeholders. Some models add image features inside the blocks
    too: those are the sink "constant".
    """
    config, ids = getattr(module, "config", None), arguments.get("input_ids")
    find = getattr(module, "get_decoder", None)
    if find is None or not isinstance(ids, Tensor) or config is None:
        return None
    found = [one for name in PLACEHOLDERS if isinstance(one := getattr(config, name, None), int)]
    only_text = not any(arguments.get(name) is not None for name in CARRIERS if name != "input_ids")
    marks = arguments.get(MARKS)
    is_marked = isinstance(marks, Tensor) and bool(marks.any())
    has_placeholders = any(bool((ids == one).any()) for one in found)
    is_merged = is_marked or (bool(found) and (only_text or has_placeholders))
    if config.is_encoder_decoder or not is_merged:
        return None
    paths = {part: path for path, part in module.named_modules()}
    return paths.get(find()) or None


def carriers_of(arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that bring tokens."""
    return [name for name in CARRIERS if isinstance(arguments.get(name), Tensor)]


def several_streams(module: nn.Module, arguments: Mapping[str, Any]) -> str:
    """Return why a model without a family has several token streams; empty if it has one."""
    if merging_part(module, arguments) is not None:
        return ""
    config = getattr(module, "config", None)
    carriers = [name for name in CARRIERS if arguments.get(name) is not None]
    reasons = {
        f"its inputs {' and '.join(carriers)} each bring tokens": len(carriers) > 1,
        "it has an encoder and a decoder": getattr(config, "is_encoder_decoder", False) is True
        or any(isinstance(m, (nn.Transformer, nn.TransformerDecoder)) for m in module.modules()),
        "its config describes a text and a vision model": len(carriers) != 1
        and all(
            getattr(config, part, None) is not None for part in ("text_config", "vision_config")
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def check_one_stream(module: nn.Module, arguments: Mapping[str, Any]) -> None:
    """Raise ModelError if a model without a family has several token streams."""
    reason = several_streams(module, arguments)
    if reason:
        raise ModelError(
            f"{type(module).__name__} has several token streams: {reason}. No known family"
            " covers it, so whyformer cannot tell whose tokens its attention mixes",
            argument="model",
            remedy="Declare it once, before explain():\n"
            f"{_DECLARATION.format(type(module).__name__)}"
            "To explain one part alone, pass that part (such as model.get_encoder()) with a"
            " target for its output",
        )


_DECLARATION = """
    from whyformer.models.families import Source, Stack, declare
    declare(
        "mine", stream="text", classes=("{}",),
        sources=(Source("text", "input_ids", mask="attention_mask"),
                 Source("image", "visual_feats", kind="features")),
        stacks=(Stack(("text",), "path.to.text.blocks"),
                Stack(("image",), "path.to.image.blocks", read=False)),
        attention={{"path.to.text.blocks": ("text", "text"),
                   "path.to.image.blocks": ("image", "image"),
                   "path.to.text.blocks.*.cross": ("text", "image")}},
    )
"""
