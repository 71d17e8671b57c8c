"""What a module's forward takes and the sizes it allows, read off its signature and its tables."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from whyformer.errors import InputError
from whyformer.models.families import Family

# Switches that transformers models take as keywords without naming them in their signature.
SWITCHES = (
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "return_dict",
    "is_causal",
)
STREAMS = {
    "input_ids": "text",
    "pixel_values": "image",
    "input_values": "audio",
    "input_features": "audio",
}


@dataclass(frozen=True)
class Forward:
    """The argument names of a forward, in order; `anything` where it takes any keyword."""

    names: tuple[str, ...]
    anything: bool
    owner: str  # the class of the module, for messages

    def takes(self, name: str) -> bool:
        """Whether an argument of this name reaches the model."""
        return self.anything or name in self.names

    def carrier(self, usual: str) -> str:
        """The argument that takes the tokens: the usual one where it is named, else the first."""
        if usual in self.names or (self.anything and not self.names):
            return usual
        if not self.names:
            raise InputError(
                f"the forward of {self.owner} names no arguments; pass a mapping of exactly what"
                " it takes"
            )
        return self.names[0]

    @property
    def padding_mask(self) -> str | None:
        """The name of torch's own kind of mask, True at padding, where the forward has one."""
        return next((n for n in self.names if n.endswith("key_padding_mask")), None)


def forward_of(module: nn.Module) -> Forward:
    """What the module's forward takes; transformers models swallow unknown keywords, we do not."""
    parameters = inspect.signature(module.forward).parameters.values()
    named = tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    swallows = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if swallows and config_of(module) is not None and named:
        named += tuple(name for name in SWITCHES if name not in named)
        swallows = False
    return Forward(named, swallows, type(module).__name__)


def config_of(module: nn.Module) -> Any | None:
    """The transformers config of the module's text side or of the whole, or None."""
    config = getattr(module, "config", None)
    if config is None or not hasattr(config, "model_type"):
        return None
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def stream_of(module: nn.Module, family: Family | None) -> str:
    """text, image, audio or tokens: what the model reads first."""
    if family is not None:
        return family.stream
    if config_of(module) is None:
        return "tokens"
    return STREAMS.get(getattr(module, "main_input_name", ""), "tokens")


def needed_streams(module: nn.Module, family: Family | None) -> set[str]:
    """Which of text and image the model has to be given; {"tokens"} where nobody knows."""
    needed = [source for source in family.sources if not source.optional] if family else []
    kinds = {"ids": "text", "pixels": "image", "features": "image"}
    if needed:
        return {kinds.get(source.kind, source.stream) for source in needed}
    return {stream_of(module, family)}


def device_and_dtype(module: nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """The device and the floating dtype of the module's first such weight."""
    device: torch.device | None = None
    for parameter in module.parameters():
        device = device or parameter.device
        if parameter.is_floating_point():
            return parameter.device, parameter.dtype
    return device or torch.device("cpu"), None


def samples_axis(module: nn.Module) -> int:
    """The axis of the input that counts samples: 1 for torch's own encoders unless told."""
    if isinstance(module, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        attention = next(m for m in module.modules() if isinstance(m, nn.MultiheadAttention))
        return 0 if attention.batch_first else 1
    return 0


def embeddings_of(module: nn.Module) -> nn.Embedding | None:
    """The table of word embeddings of a transformers model."""
    find = getattr(module, "get_input_embeddings", None)
    if config_of(module) is None or find is None:
        return None
    try:
        table = find()
    except NotImplementedError:
        return None
    return table if isinstance(table, nn.Embedding) else None


def vocabulary_of(module: nn.Module) -> int | None:
    """The number of token ids that the model has embeddings for, where that can be known."""
    table = embeddings_of(module)
    return getattr(config_of(module), "vocab_size", None) if table is None else table.num_embeddings


def positions_of(module: nn.Module) -> int | None:
    """How many tokens the model has positions for, or None where nothing limits them."""
    counted = _counted_positions(module)
    if counted is not None:
        return counted.num_embeddings - int(counted.padding_idx or 0) - 1
    limit = getattr(config_of(module), "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def reads_pad_ids(module: nn.Module) -> bool:
    """Whether the model itself looks for pad ids among its input ids, so that they mean something.

    RoBERTa and its kin number positions that way, classifiers on decoders find the last token.
    """
    return _counted_positions(module) is not None or is_last_token_classifier(module)


def is_last_token_classifier(module: nn.Module) -> bool:
    """Whether this is a decoder with a classification head: those call it `score`."""
    return type(module).__name__.endswith("ForSequenceClassification") and hasattr(module, "score")


def _counted_positions(module: nn.Module) -> nn.Embedding | None:
    """The position table of a model that numbers positions from its padding id onwards."""
    if config_of(module) is None:
        return None
    for name, part in module.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            return part if part.padding_idx is not None else None
    return None
