"""Fingerprints: the same content has the same name on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.datasets import Sample
from whyformer.models.load import Loaded

PARTS = ("tokenizer", "image_processor", "feature_extractor")  # of a multimodal processor


def of_facts(facts: Any) -> str:
    """The fingerprint of plain values: the hash of their JSON with sorted keys."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def of_model(module: nn.Module) -> str:
    """The fingerprint of a model: of its class, its config and every weight."""
    digest = hashlib.sha256(type(module).__name__.encode())
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        facts = {k: v for k, v in config.to_dict().items() if not k.startswith("_")}
        facts = {k: v for k, v in facts.items() if k not in ("transformers_version", "dtype")}
        digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
    for name, value in sorted(module.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(_bytes(value))
    return digest.hexdigest()[:32]


def of_loaded(loaded: Loaded) -> str:
    """The fingerprint of a model together with its processor."""
    return of_facts([of_model(loaded.module), _facts_of(loaded.processor)])


def _facts_of(processor: Any) -> Any:
    """Everything in a processor that decides how an input is prepared."""
    parts = {part: getattr(processor, part, None) for part in PARTS}
    if any(part is not None for part in parts.values()):
        return {name: _facts_of(part) for name, part in parts.items()}
    facts: Any = {"class": type(processor).__name__}
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        # Truncation and padding are settings of the last call.
        state = json.loads(backend.to_str())
        facts |= {k: v for k, v in state.items() if k not in ("truncation", "padding")}
    elif hasattr(processor, "get_vocab"):
        facts |= {"vocabulary": processor.get_vocab()}
    elif hasattr(processor, "to_dict"):
        facts |= {k: v for k, v in processor.to_dict().items() if not k.startswith("_")}
    longest = getattr(processor, "model_max_length", None)
    return facts | {"longest": longest}


def of_sample(sample: Sample) -> str:
    """The fingerprint of a sample: of its id, its label, its inputs and its extras."""
    digest = hashlib.sha256(f"{sample.id}\0{sample.label}".encode())
    _update_digest(digest, sample.inputs)
    for key in sorted(sample.extras):
        digest.update(key.encode())
        _update_digest(digest, sample.extras[key])
    return digest.hexdigest()[:32]


def _update_digest(digest: Any, value: Any) -> None:
    """Add a value to the digest; the content of files, not their names."""
    if isinstance(value, Path):
        digest.update(value.read_bytes())
    elif isinstance(value, Tensor):
        digest.update(_bytes(value))
    elif isinstance(value, Mapping):
        for key in sorted(value):
            digest.update(str(key).encode())
            _update_digest(digest, value[key])
    elif isinstance(value, list | tuple):
        for one in value:
            digest.update(b"\0")
            _update_digest(digest, one)
    elif hasattr(value, "tobytes"):  # arrays and images
        digest.update(value.tobytes())
    elif hasattr(value, "read") and hasattr(value, "source"):  # a mask, which is read on demand
        facts = (getattr(value, "foreground", ()), getattr(value, "ignore", ()))
        digest.update(str(facts).encode())
        _update_digest(digest, value.source)
    else:
        digest.update(str(value).encode())


def _bytes(value: Tensor) -> bytes:
    plain = value.detach().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()
