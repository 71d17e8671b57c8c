"""Models with PEFT adapters: what to explain, the virtual tokens of a prompt, merged copies."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from whyformer.errors import ModelError
from whyformer.models.parts import modules_of

# Adapters that run the blocks more than once in a forward: their hooks would see both runs.
_TWICE = ("XLORA", "SHADOW")
# Prompts that become keys and values of the attention, not tokens.
_KEYS_AND_VALUES = ("PREFIX_TUNING", "CARTRIDGE")


def find_adapted_model(model: Any) -> nn.Module:
    """Return the model with its adapters in place; a `PeftModel` itself if it adds a prompt.

    Raise ModelError for prompts and adapters that no method can follow.
    """
    # A mixed model has adapters only; `active_peft_config` is an attribute of PeftModel.
    config = getattr(model, "active_peft_config", None)
    kind = _kind_of(config)
    if kind in _TWICE:
        raise ModelError(
            f"the adapter {kind} of {type(model).__name__} runs the model twice in one forward, and"
            " whyformer cannot tell the runs apart",
            argument="model",
            remedy="Explain the model with another adapter, or without: model.get_base_model()",
        )
    if config is None or not config.is_prompt_learning:
        adapted: nn.Module = model.base_model.model
        return adapted
    base = type(model.base_model).__name__
    if prompt_length(model) and not base.endswith("ForSequenceClassification"):
        raise ModelError(
            f"{kind} puts {prompt_length(model)} virtual tokens before the input of {base}, whose"
            " output then has a row for each: positions would not be those of the text",
            argument="model",
            remedy="Explain a classifier of sequences, or use LoRA, IA3 or prefix tuning",
        )
    prompted: nn.Module = model
    return prompted


def prompt_length(module: nn.Module) -> int:
    """Return how many virtual tokens a `PeftModel` puts before the tokens of the input."""
    config = getattr(module, "active_peft_config", None)
    if config is None or not config.is_prompt_learning or _kind_of(config) in _KEYS_AND_VALUES:
        return 0
    return int(config.num_virtual_tokens)


def merge_adapters(module: nn.Module) -> nn.Module:
    """Return a copy whose adapters are merged into the weights; the module if it has none.

    Relevance rules share relevance between the summands of a product. They must see one layer with
    the weight W + BA, not two layers. The copy shares all tensors that merging does not change.
    """
    adapted = [part for part in modules_of(module) if _is_mergeable(part)]
    if not adapted:
        return module
    changed = {id(p) for part in adapted for p in (*part.parameters(), *part.buffers())}
    tensors = (*module.parameters(), *module.buffers())
    shared: dict[int, Any] = {id(t): t for t in tensors if id(t) not in changed}
    merged = copy.deepcopy(module, shared)
    for part in modules_of(merged):
        if _is_mergeable(part):
            part.merge()  # type: ignore[operator]
    return merged


def _is_mergeable(part: nn.Module) -> bool:
    """Whether this is a layer with an adapter that is on and not merged."""
    is_adapter = "BaseTunerLayer" in {cls.__name__ for cls in type(part).__mro__}
    return (
        is_adapter
        and callable(getattr(part, "merge", None))
        and not part.disable_adapters
        and not part.merged
        and bool(part.active_adapters)
    )


def _kind_of(config: Any) -> str:
    """The kind of an adapter, such as "LORA"; "" if there is none."""
    return str(getattr(getattr(config, "peft_type", ""), "value", ""))
