"""Find tokenizers and image processors: the user's, or those stored with the model."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from whyformer.errors import InputError, ModelError
from whyformer.models.fork_safe import fork_safe
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
_lock = fork_safe(threading.RLock())


@dataclass(frozen=True)
class Processors:
    """A tokenizer and an image processor; either may be None."""

    tokenizer: Any | None = None
    image_processor: Any | None = None


def tokenizer_of(processor: Any, module: nn.Module) -> Any | None:
    """The user's tokenizer, else the one stored with the model, else None."""
    source = processor if processor is not None else stored_processor(module)
    return _part(source, "tokenizer", is_tokenizer)


def image_processor_of(processor: Any, module: nn.Module) -> Any | None:
    """The user's image processor, else the one stored with the model, else None."""
    source = processor if processor is not None else stored_processor(module)
    return _part(source, "image_processor", is_image_processor)


def is_tokenizer(thing: Any) -> bool:
    """Whether `thing` converts text to token ids and back."""
    return callable(thing) and hasattr(thing, "convert_ids_to_tokens")


def is_image_processor(thing: Any) -> bool:
    """Whether `thing` converts images to pixel values."""
    return callable(thing) and hasattr(thing, "preprocess")


def is_folder(name: str | os.PathLike[str]) -> bool:
    """Whether this names a folder; no error for a name that no file can have."""
    try:
        return Path(name).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):
        return False


def check_processor(processor: Any) -> Any:
    """Return the processor, loaded if it is a folder; raise InputError if it is none."""
    if isinstance(processor, str | os.PathLike):
        found = load_processor(Path(processor)) if is_folder(processor) else None
        if found is None:
            raise InputError(
                f"processor={str(processor)!r} is not a folder with a tokenizer or an image"
                " processor in it",
                argument="processor",
                remedy="Pass such a folder, or the object itself",
            )
        return found
    parts = ("tokenizer", "image_processor")
    if processor is None or is_tokenizer(processor) or is_image_processor(processor):
        return processor
    if any(hasattr(processor, part) for part in parts):
        return processor
    raise InputError(
        f"processor= is of type {type(processor).__name__}",
        argument="processor",
        remedy="Pass a tokenizer, an image processor, or a processor that has both",
    )


def merge_processors(processor: Any, tokenizer: Any, image_processor: Any) -> Any:
    """Return one processor from the arguments of `explain`: `processor`, or one or both others.

    Raise InputError if they overlap or are of the wrong type.
    """
    if tokenizer is None and image_processor is None:
        return processor
    if processor is not None:
        raise InputError(
            "processor= was passed together with tokenizer= or image_processor=",
            argument="processor",
            remedy="Pass processor= alone, or tokenizer= and image_processor=",
        )
    parts = {}
    for name, thing, suits in (
        ("tokenizer", tokenizer, is_tokenizer),
        ("image_processor", image_processor, is_image_processor),
    ):
        parts[name] = found = _part(check_processor(thing), name, suits)
        if thing is not None and found is None:
            raise InputError(
                f"{name}= is of type {type(thing).__name__}, which is no {name.replace('_', ' ')}",
                argument=name,
                remedy=f"Pass the model's {name.replace('_', ' ')}, or its folder",
            )
    return Processors(**parts)


def load_processor(folder: Path) -> Any | None:
    """Load the processor in a folder; None if the folder has none."""
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
            f"the processor in folder '{folder}' cannot be loaded as {kind}: {first_line(error)}",
            argument="processor",
            remedy="Repair its files, or load it yourself and pass it as processor=",
        ) from error


def cached_processor(name: str, module: nn.Module, local: bool = True) -> Any | None:
    """Load the processor of a hub model; None if it has none for the module's stream."""
    kind = {"text": "AutoTokenizer", "image": "AutoImageProcessor"}.get(stream_of(module, None))
    try:
        return None if kind is None else _auto(kind, name, local_files_only=local)
    except Exception:
        # Not an error yet: tensors need no processor, and texts or images raise later.
        return None


def stored_processor(module: nn.Module) -> Any | None:
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
    """The processor itself if it suits, else its attribute `name`, else None."""
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
    """The first line of an error message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
