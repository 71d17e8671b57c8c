"""Take the model out of what holds it: pipelines, compiled, parallel, PEFT, sentence models.

The packages that define the wrappers need not be installed, so classes are known by their names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from whyformer.errors import ModelError
from whyformer.models.adapters import find_adapted_model
from whyformer.models.processors import Processors
from whyformer.models.sentence_encoder import find_cross_encoder, sentence_encoder

Unwrapped = tuple[Any, Any | None]  # what is inside, and its processor if the wrapper has one


def unwrap(model: Any) -> Unwrapped:
    """Return the module inside all wrappers, and the processor that was found on the way.

    What is no wrapper is returned as it is. Raise ModelError if the wrapper hides the module.
    """
    processor = None
    while True:
        inside, found = _unwrap_once(model)
        processor = processor or found
        if inside is model:
            return model, processor
        model = inside


def is_pipeline(model: Any) -> bool:
    """Return whether this is a `transformers.pipeline`."""
    return "Pipeline" in _class_names(model) and isinstance(
        getattr(model, "model", None), nn.Module
    )


def _unwrap_once(model: Any) -> Unwrapped:
    if is_pipeline(model):
        return model.model, _pipeline_processor(model)
    if not isinstance(model, nn.Module):
        if "ExportedProgram" in _class_names(model):
            raise _refusal(model, "torch.export has flattened its blocks")
        return model, None
    compiled = getattr(model, "_orig_mod", None)  # torch.compile keeps the module there
    if isinstance(compiled, nn.Module):
        return compiled, None
    names = _class_names(model)
    for name, find in _WRAPPERS.items():
        if name in names:
            return find(model)
    return model, None


def _pipeline_processor(pipeline: Any) -> Any | None:
    """The tokenizer and image processor of a pipeline; None if it has neither."""
    both = getattr(pipeline, "processor", None)
    tokenizer = pipeline.tokenizer or getattr(both, "tokenizer", None)
    images = getattr(pipeline, "image_processor", None) or getattr(both, "image_processor", None)
    return None if tokenizer is None and images is None else Processors(tokenizer, images)


def _refuse_shards(model: nn.Module) -> Unwrapped:
    raise _refusal(model, "each process holds only a part of every weight")


def _refusal(model: Any, why: str) -> ModelError:
    return ModelError(
        f"a {type(model).__name__} cannot be explained: {why}",
        argument="model",
        remedy="Pass the original nn.Module",
    )


def _class_names(model: Any) -> set[str]:
    return {cls.__name__ for cls in type(model).__mro__}


# How to look into a wrapper, by the name of its class or of a base class.
_WRAPPERS: dict[str, Callable[[Any], Unwrapped]] = {
    "DataParallel": lambda model: (model.module, None),
    "DistributedDataParallel": lambda model: (model.module, None),
    "FullyShardedDataParallel": _refuse_shards,
    "PeftModel": lambda model: (find_adapted_model(model), None),
    "PeftMixedModel": lambda model: (find_adapted_model(model), None),
    "CrossEncoder": find_cross_encoder,
    "SentenceTransformer": sentence_encoder,
    "SparseEncoder": sentence_encoder,
    "MultiVectorEncoder": sentence_encoder,
}
