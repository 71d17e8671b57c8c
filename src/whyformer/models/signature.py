"""What a module's forward takes: its arguments, streams, device, vocabulary and positions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from whyformer.errors import InputError
from whyformer.models.families import Family
from whyformer.models.offload import execution_device

# Keywords that transformers models take without naming them in their signature.
SWITCHES = (
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "return_dict",
    "is_causal",
)
# The stream of a model's main argument.
STREAMS = {
    "input_ids": "text",
    "pixel_values": "image",
    "input_values": "audio",
    "input_features": "audio",
}
# Where configs of transformers keep that of their text part; not all of them declare it.
_TEXT_PARTS = frozenset(("text_encoder", "decoder", "generator", "text_config"))

# What `inspect` found for a method; it is asked several times in each call of explain.
_parameters: WeakKeyDictionary[FunctionType, tuple[tuple[str, ...], bool]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Forward:
    """The arguments of a forward, in order; `anything` if it takes any keyword."""

    names: tuple[str, ...]
    anything: bool
    owner: str  # the class of the module, for error messages

    def takes(self, name: str) -> bool:
        """Whether forward takes an argument of this name."""
        return self.anything or name in self.names

    def carrier(self, usual: str) -> str:
        """The argument of the tokens: the usual one if forward has it, else the first."""
        if usual in self.names or (self.anything and not self.names):
            return usual
        if not self.names:
            raise InputError(
                f"the forward of {self.owner} names no arguments",
                argument="inputs",
                remedy="Pass a mapping of exactly what it takes",
            )
        return self.names[0]

    @property
    def padding_mask(self) -> str | None:
        """The name of a mask in torch's convention (True at padding), or None."""
        return next((n for n in self.names if n.endswith("key_padding_mask")), None)


def forward_of(module: nn.Module) -> Forward:
    """What the module's forward takes.

    transformers models ignore unknown keywords; here they count as not taken.
    """
    if isinstance(module, torch.jit.ScriptModule):
        scripted: Any = module.forward
        arguments = scripted.schema.arguments[1:]  # without self
        return Forward(tuple(one.name for one in arguments), False, str(module.original_name))
    names, takes_any = _parameters_of(module.forward)
    if takes_any and config_of(module) is not None and names:
        names += tuple(name for name in SWITCHES if name not in names)
        takes_any = False
    return Forward(names, takes_any, type(module).__name__)


def _parameters_of(forward: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """The names of a forward's arguments, and whether it takes any keyword."""
    function = getattr(forward, "__func__", None)
    known = _parameters.get(function) if isinstance(function, FunctionType) else None
    if known is not None:
        return known
    parameters = inspect.signature(forward).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = tuple(one.name for one in parameters if one.kind in named)
    found = names, any(one.kind is one.VAR_KEYWORD for one in parameters)
    if isinstance(function, FunctionType):
        _parameters[function] = found
    return found


def config_of(module: nn.Module) -> Any | None:
    """The transformers config of the text part, or of the whole module; None if there is none."""
    config = getattr(module, "config", None)
    # Each look at a config of transformers runs Python code; one at its class does not.
    kind = type(config)
    if config is None or not (hasattr(kind, "model_type") or hasattr(config, "model_type")):
        return None
    if getattr(kind, "sub_configs", None) == {} and _TEXT_PARTS.isdisjoint(_entries(config)):
        return config  # nothing inside, so that it is its own text config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _entries(config: Any) -> dict[str, Any]:
    """The entries of a config, without the Python code that its attributes run."""
    found: dict[str, Any] = object.__getattribute__(config, "__dict__")
    return found


def stream_of(module: nn.Module, family: Family | None) -> str:
    """The model's main stream: text, source, image, audio, or tokens if unknown."""
    if family is not None:
        return family.stream
    if config_of(module) is None:
        return "tokens"
    return STREAMS.get(main_argument(module), "tokens")


def main_argument(module: nn.Module) -> str:
    """The argument that carries the tokens of a transformers model; "" if it is unknown.

    It is the one that the class names, or else the first well-known one that its forward takes:
    parts of larger models often inherit a name that they do not take.
    """
    named, names = str(getattr(module, "main_input_name", "input_ids")), forward_of(module).names
    if named in names or not names:
        return named
    return next((name for name in STREAMS if name in names), "")


def needed_streams(module: nn.Module, family: Family | None) -> set[str]:
    """Which of text and image the model needs; {"tokens"} if unknown."""
    needed = [source for source in family.sources if not source.optional] if family else []
    kinds = {"ids": "text", "pixels": "image", "features": "image"}
    if needed:
        return {kinds.get(source.kind, source.stream) for source in needed}
    return {stream_of(module, family)}


def placeholder_streams(module: nn.Module, family: Family | None) -> set[str]:
    """Return the streams that a language model reads at placeholders, if the text has some."""
    if family is not None:
        return {soft.stream for soft in family.soft}
    config, parts = getattr(module, "config", None), {"image": "vision", "audio": "audio"}
    return {one for one, part in parts.items() if getattr(config, f"{part}_config", None)}


def device_and_dtype(module: nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """The device and dtype of the module's first floating weight.

    For weights that accelerate keeps elsewhere between forward passes: the device they run on.
    """
    device: torch.device | None = None
    for parameter in module.parameters():
        here = execution_device(module) if parameter.is_meta else parameter.device
        device = device or here
        if parameter.is_floating_point():
            return here, parameter.dtype
    return device or torch.device("cpu"), None


def samples_axis(module: nn.Module) -> int:
    """The input axis that counts samples: 1 for torch's encoders without batch_first."""
    if isinstance(module, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        attention = next(m for m in module.modules() if isinstance(m, nn.MultiheadAttention))
        return 0 if attention.batch_first else 1
    return 0


def embeddings_of(module: nn.Module) -> nn.Embedding | None:
    """The word embeddings of a transformers model, or None."""
    config = config_of(module)
    if config is None:
        return None
    find: Any = getattr(module, "get_input_embeddings", None)
    try:
        table = None if find is None else find()
    except NotImplementedError:
        table = None
    if table is None:
        table = _only_table(module, getattr(config, "vocab_size", None))
    return table if isinstance(table, nn.Embedding) else None


def _only_table(module: nn.Module, vocabulary: Any) -> nn.Embedding | None:
    """The only embedding of so many words in a module, or None."""
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    tables = [table for table in tables if table.num_embeddings == vocabulary]
    return tables[0] if len(tables) == 1 else None


def vocabulary_of(module: nn.Module) -> int | None:
    """The number of token ids with an embedding, or None if unknown."""
    return vocabulary_in(embeddings_of(module), module)


def vocabulary_in(table: nn.Embedding | None, module: nn.Module) -> int | None:
    """The same for the word embeddings that `embeddings_of` returned."""
    return getattr(config_of(module), "vocab_size", None) if table is None else table.num_embeddings


def positions_of(module: nn.Module) -> int | None:
    """The largest number of tokens that the model takes, or None if there is no limit."""
    table = _padded_positions(module)
    if table is not None:
        return table.num_embeddings - int(table.padding_idx or 0) - 1
    limit = getattr(config_of(module), "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def reads_pad_ids(module: nn.Module) -> bool:
    """Whether the model searches its input ids for padding ids.

    RoBERTa and similar models number positions that way; classifiers on decoders find the last
    token that way.
    """
    return _padded_positions(module) is not None or is_last_token_classifier(module)


def is_last_token_classifier(module: nn.Module) -> bool:
    """Whether this is a decoder with a classification head, which transformers calls `score`."""
    return type(module).__name__.endswith("ForSequenceClassification") and hasattr(module, "score")


def _padded_positions(module: nn.Module) -> nn.Embedding | None:
    """The position embeddings of a model that numbers positions from its padding id on."""
    if config_of(module) is None:
        return None
    for name, part in module.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            return part if part.padding_idx is not None else None
    return None
