"""Tokenizers and image processors: taken from what the user gave, or found beside the model."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from whyformer.errors import InputError, ModelError
from whyformer.models.quiet import quiet_loading
from whyformer.models.signature import config_of, stream_of

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
)
IMAGE_FILES = ("preprocessor_config.json",)
COMBINED_FILES = ("processor_config.json",)

_found: WeakKeyDictionary[nn.Module, tuple[str, Any]] = WeakKeyDictionary()
_lock = threading.RLock()


def tokenizer_of(processor: Any, module: nn.Module) -> Any | None:
    """The tokenizer inside what the user gave, else the one beside the model, else None."""
    chosen = processor if processor is not None else found_beside(module)
    return _part(chosen, "tokenizer", is_tokenizer)


def image_processor_of(processor: Any, module: nn.Module) -> Any | None:
    """The image processor inside what the user gave, else the one beside the model, else None."""
    chosen = processor if processor is not None else found_beside(module)
    return _part(chosen, "image_processor", is_image_processor)


def is_tokenizer(thing: Any) -> bool:
    """Whether this turns text into token ids and back."""
    return callable(thing) and hasattr(thing, "convert_ids_to_tokens")


def is_image_processor(thing: Any) -> bool:
    """Whether this turns images into pixel values."""
    return callable(thing) and hasattr(thing, "preprocess")


def check_processor(processor: Any) -> Any:
    """The processor, loaded where it is a folder; raises where it is no processor at all."""
    if isinstance(processor, str | os.PathLike):
        found = load_processor(Path(processor)) if Path(processor).is_dir() else None
        if found is None:
            raise InputError(
                f"processor={str(processor)!r} is not a folder with a tokenizer or an image"
                " processor in it; pass such a folder, or the object itself"
            )
        return found
    parts = ("tokenizer", "image_processor")
    if processor is None or is_tokenizer(processor) or is_image_processor(processor):
        return processor
    if any(hasattr(processor, part) for part in parts):
        return processor
    raise InputError(
        f"processor= is of type {type(processor).__name__}; pass a tokenizer, an image processor,"
        " or a processor that has both"
    )


def load_processor(folder: Path) -> Any | None:
    """The processor that the folder's files describe, None where there are none."""
    names = {path.name for path in folder.iterdir()}
    text, image = (any(f in names for f in fs) for fs in (TOKENIZER_FILES, IMAGE_FILES))
    if (text and image) or any(f in names for f in COMBINED_FILES):
        kind = "AutoProcessor"
    elif text or image:
        kind = "AutoTokenizer" if text else "AutoImageProcessor"
    else:
        return None
    try:
        return _auto(kind, str(folder))
    except Exception as error:
        raise ModelError(
            f"the processor in folder '{folder}' cannot be loaded as {kind}: {first_line(error)};"
            " repair its files, or load it yourself and pass it as processor="
        ) from error


def cached_processor(name: str, module: nn.Module, local: bool = True) -> Any | None:
    """The processor of a hub model that the module's stream needs, None where it has none."""
    kind = {"text": "AutoTokenizer", "image": "AutoImageProcessor"}.get(stream_of(module, None))
    try:
        return None if kind is None else _auto(kind, name, local_files_only=local)
    except Exception:
        # A model without a processor is fine until text or images arrive; then the user is told.
        return None


def found_beside(module: nn.Module) -> Any | None:
    """The processor in the folder or hub cache that a transformers model was loaded from."""
    origin = str(getattr(module, "name_or_path", "") or "")
    if not origin or config_of(module) is None:
        return None
    with _lock:
        known = _found.get(module)
        if known is None or known[0] != origin:
            folder = Path(origin)
            found = load_processor(folder) if folder.is_dir() else cached_processor(origin, module)
            known = _found[module] = (origin, found)
    return known[1]


def _part(processor: Any, name: str, suits: Any) -> Any | None:
    """The processor itself where it suits, else its part of that name."""
    if processor is None or suits(processor):
        return processor
    part = getattr(processor, name, None)
    return part if part is not None and suits(part) else None


def _auto(kind: str, source: str, local_files_only: bool = True) -> Any:
    import transformers

    with quiet_loading():
        return getattr(transformers, kind).from_pretrained(
            source, local_files_only=local_files_only, trust_remote_code=False
        )


def first_line(error: Exception) -> str:
    """The first line of what went wrong."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
