"""What a family says about its models: whose tokens, which blocks, and a tiny one for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from whyformer.registry import Registry

families: Registry[Family] = Registry("family", "whyformer.models.families")

Pair = tuple[str, str]  # (asking, answering): the streams of an attention's queries and keys
# rule(ledger, function, args, kwargs): replaces one torch operation (see `engine.rules`).
Rule = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True)
class Source:
    """The arguments of forward that bring one stream's tokens."""

    stream: str
    carrier: str
    kind: str = "ids"  # token "ids", "pixels" cut into patches, or "features", one row per token
    mask: str | None = None  # the argument that is 0 at this stream's padding
    beside: tuple[str, ...] = ()  # arguments with one entry per token
    part: str = ""  # the sub-module whose config describes the stream; the model by default
    # Of arguments with several numbers per token, the config's name for how many.
    widths: Mapping[str, str] = field(default_factory=dict)
    boxes: str = ""  # the one of `beside` that takes where in the image a token is
    ends: str = ""  # the config's name for the id that ends a generated text, if not eos_token_id
    stride: int = 1  # features: how many rows of them make one token state
    optional: bool = False  # forward can do without
    padding: bool = True  # False: the model reads this stream's padding, whatever the mask says
    full: bool = False  # texts are padded to all the positions that the model has, without a mask

    def submodule(self, module: nn.Module) -> nn.Module:
        """The sub-module of a model whose config describes this stream."""
        return module.get_submodule(self.part)


@dataclass(frozen=True)
class Stack:
    """One sequence of token states: whose tokens, in order, and the blocks that it runs through.

    States enter the first block; the head reads what the last one returns, or `leaves`.
    """

    streams: tuple[str, ...]
    blocks: str  # dotted path to the list of blocks, from the model or from its base model
    leaves: str = ""  # the module whose output the head reads, where it is not the last block
    read: bool = True  # False: no head reads it, only other stacks ask it
    hidden: bool = False  # no tokens of the input: an attention pooler's probe

    @property
    def name(self) -> str:
        """What the family's table of attention calls it."""
        return "+".join(self.streams)


@dataclass(frozen=True)
class Family:
    """One model family as data; `model_types` are the `config.model_type` values it covers."""

    name: str
    stream: str  # the main one: text, image, source, audio, tokens
    model_types: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()  # names of the only model classes it covers, if not all
    blocks: str = ""  # of a family with one stack, as in `Stack`
    causal: bool = False  # tokens see only what is before them; the last one decides
    prefix_tokens: Callable[[Any], int] = lambda config: 0  # before an image's patches
    title: str = ""
    tiny: Callable[..., nn.Module] | None = None  # a small random model, for tests and dry runs
    # More tiny models, by name: what the family's other members do differently.
    variants: Mapping[str, Callable[..., nn.Module]] = field(default_factory=dict)
    # A tiny model with ReLU as its only nonlinearity beside attention and norms, if there is one.
    relu: Callable[..., nn.Module] | None = None
    # -- what families of several streams or stacks say in addition ------------------------------
    stacks: tuple[Stack, ...] = ()
    sources: tuple[Source, ...] = ()
    # Whose tokens an attention mixes, by the path of a module around it (* is one step of a path,
    # ** any number; the innermost module counts). Two pairs: the module is called twice, and both
    # calls count as one moment.
    attention: Mapping[str, Pair | tuple[Pair, Pair]] = field(default_factory=dict)
    speaks: str = ""  # the sub-module whose output has the scores, where the model's own has none
    rules: Mapping[Any, Rule] = field(default_factory=dict)  # for operations that only it has
    unread: tuple[str, ...] = ()  # how the names of weights begin that no forward reads

    @property
    def all_stacks(self) -> tuple[Stack, ...]:
        """Every stack; of a family that names none, the one that `blocks` describes."""
        return self.stacks or (Stack((self.stream,), self.blocks),)

    @property
    def writes(self) -> bool:
        """Whether its models write a text, of which every token is explained."""
        return any(source.stream == "generated" for source in self.sources)

    @property
    def detects(self) -> bool:
        """Whether its models answer by object queries, any of which can be asked about."""
        return any("queries" in stack.streams for stack in self.all_stacks)

    def covers(self, model: nn.Module) -> bool:
        """Whether the model is one of this family's."""
        names = {cls.__name__ for cls in type(model).__mro__}
        if self.classes and not names & set(self.classes):
            return False
        kind = getattr(getattr(model, "config", None), "model_type", None)
        return bool(self.classes) if not self.model_types else kind in self.model_types


def declare(name: str, **facts: Any) -> Family:
    """The family, registered: from now on `explain` knows its models."""
    return families.register(name, Family(name=name, **facts))


def family_of(model: nn.Module) -> Family | None:
    """The family that covers the model, if any."""
    return next((known for known in families.values() if known.covers(model)), None)
