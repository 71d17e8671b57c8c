"""What a family says about its models: whose tokens, which blocks, and a tiny one for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from whyformer.registry import Registry

families: Registry[Family] = Registry("family", "whyformer.families")


@dataclass(frozen=True)
class Family:
    """One model family as data; `model_types` are the `config.model_type` values it covers."""

    name: str
    stream: str  # text, image, audio, tokens
    model_types: tuple[str, ...]
    blocks: str  # dotted path to the list of blocks, from the model or from its base model
    tiny: Callable[..., nn.Module]  # a small random model, for tests and dry runs
    causal: bool = False  # tokens see only what is before them; the last one decides
    prefix_tokens: Callable[[Any], int] = lambda config: 0  # before an image's patches
    title: str = ""
    # More tiny models, by name: what the family's other members do differently.
    variants: Mapping[str, Callable[..., nn.Module]] = field(default_factory=dict)
    # A tiny model with ReLU as its only nonlinearity beside attention and norms, if there is one.
    relu: Callable[..., nn.Module] | None = None


def family(name: str, **facts: Any) -> Family:
    """The family, registered."""
    return families.register(name, Family(name=name, **facts))


def family_of(model: nn.Module) -> Family | None:
    """The family that declares the model's `config.model_type`, if any."""
    kind = getattr(getattr(model, "config", None), "model_type", None)
    for known in families.values():
        if kind is not None and kind in known.model_types:
            return known
    return None
