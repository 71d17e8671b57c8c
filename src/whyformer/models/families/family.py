"""Describe a model family as data: its streams, blocks, attention, and a tiny model for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from whyformer.models.families.soft import Soft
from whyformer.registry import Registry

families: Registry[Family] = Registry("family", "whyformer.models.families")

Pair = tuple[str, str]  # (asking, answering): the streams of an attention's queries and keys
# rule(ledger, function, args, kwargs): replaces one torch operation (see `engine.rules`).
Rule = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True)
class Source:
    """The arguments of forward that carry one stream."""

    stream: str
    carrier: str
    # Token "ids", "pixels" that are cut into patches, "features" (one row per token), or sound:
    # "waveform" (batch, samples), "frames" (batch, frames, width), "sound" (batch, width, frames).
    # "video": (batch, frames, channels, height, width). "numbers" of any shape: `tokens` states.
    kind: str = "ids"
    mask: str | None = None  # the argument that is 0 at this stream's padding
    beside: tuple[str, ...] = ()  # other arguments with one entry per token
    part: str = ""  # the sub-module whose config describes the stream; the whole model by default
    # For arguments with several numbers per token: the config's setting of that width.
    widths: Mapping[str, str] = field(default_factory=dict)
    boxes: str = ""  # the argument of `beside` with each token's box in the image
    ends: str = ""  # the config's setting of the id that ends the output, if not eos_token_id
    # How many token states so many frames or samples give, from the config.
    frames: Callable[[Any, Tensor], Tensor] = lambda config, entries: entries
    # Rows and columns of the token states, if they are no line, from the config and the shape.
    grid: Callable[[Any, tuple[int, ...]], tuple[int, int]] | None = None
    optional: bool = False  # forward works without it
    # False, or false of the config: the model ignores the mask and reads this stream's padding.
    padding: bool | Callable[[Any], bool] = True
    full: bool = False  # texts are padded to the model's last position, without a mask
    tokens: int = 0  # how many token states "numbers" give, as found by what ran
    # For "tiles", (batch, images, tiles, channels, height, width), from the config and all
    # arguments: the state of each cell (rows, columns), the mask (batch, cells), and the pixels.
    cells: Callable[[Any, Mapping[str, Any]], tuple[Tensor, Tensor, Tensor]] | None = None

    def submodule(self, module: nn.Module) -> nn.Module:
        """The sub-module of a model whose config describes this stream."""
        return module.get_submodule(self.part)

    def allows_padding(self, module: nn.Module) -> bool:
        """Whether the model leaves out this stream's padding."""
        if isinstance(self.padding, bool):
            return self.padding
        return self.padding(getattr(self.submodule(module), "config", None))

    def count_tokens(self, module: nn.Module, entries: Tensor) -> Tensor:
        """The number of token states for each number of frames or samples."""
        return self.frames(getattr(self.submodule(module), "config", None), entries)


@dataclass(frozen=True)
class Stack:
    """One sequence of token states and its blocks.

    The states enter the first block. The head reads the output of the last one, or of `leaves`.
    """

    streams: tuple[str, ...]  # in the order of their tokens
    blocks: str = ""  # dotted path to the list of blocks, from the model or from its base model
    leaves: str = ""  # the module whose output the head reads, if not the last block
    read: bool = True  # False: no head reads it, only other stacks attend to it
    hidden: bool = False  # not tokens of the input, but an attention pooler's probe
    pads: bool = False  # the model itself adds padding after the tokens
    like: str = ""  # the stream whose padding it has, if its tokens are not in the inputs
    merged: bool = False  # other encoders compute some of its tokens
    spread: bool = False  # its states may have more axes than (batch, tokens, hidden)
    # -- only for stacks that were found by what ran -----------------------------------------------
    paths: tuple[str, ...] = ()  # the blocks themselves, in place of a path to their list
    whole: bool = True  # each block returns what enters the next one
    crosses: bool = False  # its blocks read other stacks
    own: tuple[int, int] = (0, 0)  # the model's own tokens before and after those of the streams

    @property
    def name(self) -> str:
        """Its name in the family's table of attention."""
        return "+".join(self.streams)


@dataclass(frozen=True)
class Family:
    """One model family as data."""

    name: str
    stream: str  # the main stream: text, image, source, audio, tokens
    model_types: tuple[str, ...] = ()  # values of `config.model_type` that it covers
    classes: tuple[str, ...] = ()  # names of the model classes that it covers; all if empty
    blocks: str = ""  # for a family with one stack; see `Stack`
    causal: bool = False  # a token attends to those before it only; the last one decides
    prefix_tokens: Callable[[Any], int] = lambda config: 0  # tokens before the patches
    title: str = ""
    tiny: Callable[..., nn.Module] | None = (
        None  # builds a small random model, for tests and dry runs
    )
    # More tiny models, by name, for members of the family that differ.
    variants: Mapping[str, Callable[..., nn.Module]] = field(default_factory=dict)
    # Builds a tiny model with no nonlinearity but ReLU, attention and norms, if there is one.
    relu: Callable[..., nn.Module] | None = None
    # -- only for families with several streams or stacks ------------------------------------------
    stacks: tuple[Stack, ...] = ()
    sources: tuple[Source, ...] = ()
    # The streams of queries and keys of an attention, by the path of a module around it (* is one
    # step of a path, ** any number; the innermost module counts). Two pairs: the module is called
    # twice, and both calls count as one layer.
    attention: Mapping[str, Pair | tuple[Pair, Pair]] = field(default_factory=dict)
    output_module: str = ""  # the sub-module that returns the scores, if the model does not
    rules: Mapping[Any, Rule] = field(default_factory=dict)  # for operations that only it has
    unread: tuple[str, ...] = ()  # prefixes of weights that forward does not use
    # Why methods that read attention maps do not apply, as a clause; empty if they do.
    without_maps: str = ""
    found: bool = False  # not declared: its streams were found by what ran
    # Streams whose tokens stand at placeholders among those of the first source.
    soft: tuple[Soft, ...] = ()
    # Values of arguments at generated tokens that follow the text, if not 0.
    answer: Mapping[str, int] = field(default_factory=dict)
    when: Callable[[Any], bool] = lambda config: True  # which configs it covers

    @property
    def all_stacks(self) -> tuple[Stack, ...]:
        """All stacks; without `stacks`, the one that `blocks` describes."""
        return self.stacks or (Stack((self.stream,), self.blocks),)

    @property
    def generates_text(self) -> bool:
        """Whether its models generate text."""
        return any(source.stream == "generated" for source in self.sources)

    @property
    def detects(self) -> bool:
        """Whether its models detect objects by queries."""
        return any("queries" in stack.streams for stack in self.all_stacks)

    def covers(self, model: nn.Module) -> bool:
        """Whether the model belongs to this family."""
        return self._covers(_kind_of(model))

    def _covers(self, kind: _Kind) -> bool:
        if self.classes and kind.classes.isdisjoint(self.classes):
            return False
        if not self.model_types:
            return bool(self.classes)
        return kind.model_type in self.model_types and self.when(kind.config)


class _Kind(NamedTuple):
    """What tells a model's family: the names of its classes, its config and model type."""

    classes: frozenset[str]
    config: Any
    model_type: Any


def _kind_of(model: nn.Module) -> _Kind:
    classes = frozenset(cls.__name__ for cls in type(model).__mro__)
    config = getattr(model, "config", None)
    return _Kind(classes, config, getattr(config, "model_type", None))


def declare(name: str, **facts: Any) -> Family:
    """Register a family and return it; `facts` are fields of `Family`."""
    return families.register(name, Family(name=name, **facts))


def family_of(model: nn.Module) -> Family | None:
    """The family of the model, or None."""
    kind = _kind_of(model)  # once: there are many families, and configs of transformers are slow
    return next((known for known in families.values() if known._covers(kind)), None)
