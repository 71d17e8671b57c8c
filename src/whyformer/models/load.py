"""Load the model: an nn.Module, a bundled name, a folder, or a hub id."""

from __future__ import annotations

import copy
import os
import re
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from whyformer.errors import InputError, ModelError
from whyformer.models import bundled
from whyformer.models.families import Family, family_of
from whyformer.models.fork_safe import fork_safe
from whyformer.models.packed_weights import PACKED, read_packed
from whyformer.models.placement import read_placement, refuse_placement
from whyformer.models.processors import (
    cached_processor,
    check_processor,
    first_line,
    is_folder,
    load_processor,
)
from whyformer.models.quiet import quiet_loading
from whyformer.models.undo import undo_leftovers
from whyformer.models.unwrap import unwrap
from whyformer.models.weight_files import check_hub_files, check_weight_files
from whyformer.registry import nearest

# The default model for each kind of inputs (see `inputs.detect.kind_of`).
DEFAULTS = {"text": "sst2", "image": "mnist", "text+image": "lxmert_shapes"}
# Owner and name, or a name alone. Anything else can only be the path of a folder.
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")

_bundled: dict[Path, tuple[nn.Module, Any]] = {}
_lock = fork_safe(threading.RLock())


@dataclass(frozen=True)
class Loaded:
    """A model, the processor of its inputs, and a name to show."""

    module: nn.Module
    processor: Any | None
    name: str
    found: Family | None = None  # streams that were found by what ran, if no family covers it
    source: str | None = None  # what `load_model` loads again, in another process; None if nothing

    @cached_property
    def family(self) -> Family | None:
        """The family of the module, declared or found; None if it has one undeclared stream."""
        return family_of(self.module) or self.found


@undo_leftovers
def load_model(
    model: Any,
    processor: Any = None,
    kind: str | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
) -> Loaded:
    """Load a model for use, not for training.

    A bundled model is loaded once per process and shared by all threads.

    Args:
        model: An nn.Module or a `Loaded` (returned as they are), a pipeline or another wrapper
            around a module, a bundled name, a folder, a hub id, or None for the bundled model that
            fits `kind`.
        processor: A tokenizer, an image processor, a processor of both, or its folder. By default
            the one stored with the model.
        kind: What `inputs.detect.kind_of` says about the inputs. Used only if `model` is None.
        device: Where to put a model that is loaded here.
        dtype: The precision of a model that is loaded here; by default that of its weights.

    Raises:
        ModelError: The model cannot be found or loaded.
        InputError: There is no bundled model for inputs of this kind.
        OptionError: `device` or `dtype` is unknown, or comes with a module.

    Example:
        >>> load_model(None, kind="text").name
        'sst2'
    """
    processor = check_processor(processor)
    place = read_placement(device, dtype)
    if isinstance(model, Loaded):
        refuse_placement(place, model.name)
        return model
    module, found = unwrap(model)
    if isinstance(module, nn.Module):
        refuse_placement(place, type(module).__name__)
        return Loaded(module, found if processor is None else processor, _class_name(module))
    if model is None:
        model = _default_name(kind)
    if not isinstance(model, str | os.PathLike):
        raise ModelError(
            f"model= is of type {type(model).__name__}",
            argument="model",
            remedy=f"Pass an nn.Module, a pipeline, the name of a bundled model"
            f" ({_bundled_names()}), a folder, or a hub id",
        )
    name = os.fspath(model)
    known = bundled.models()
    if name in known:
        module, own = _load_bundled(known[name])
        if place:
            module = copy.deepcopy(module)  # other callers share it
    elif is_folder(name):
        folder = Path(name).expanduser()
        module = load_folder(folder)
        own = load_processor(folder) if processor is None else None
    else:
        module, own = _load_hub(name, with_processor=processor is None)
    source = name if processor is None and not place else None
    if place:
        module.to(**place)
    return Loaded(module, own if processor is None else processor, name, source=source)


def _class_name(module: nn.Module) -> str:
    """The class of a module; for a scripted one that of its source."""
    name: str = getattr(module, "original_name", type(module).__name__)
    return name


def load_folder(folder: Path, dtype: torch.dtype | str = "auto") -> nn.Module:
    """Load the model in a folder, of the class that its config names."""
    check_weight_files(folder)
    try:
        return _from_pretrained(str(folder), dtype=dtype, local_files_only=True)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"the model in folder '{folder}' cannot be loaded: {first_line(error)}",
            argument="model",
            remedy="Check its config.json and weights, or load it yourself and pass the module",
        ) from error


def _default_name(kind: str | None) -> str:
    """The name of the bundled model for inputs of this kind."""
    if kind is None or kind not in DEFAULTS:
        raise InputError(
            f"a {kind or 'batch'} was given without a model: only text, images and both together"
            " have a bundled default",
            argument="model",
            remedy="Pass model= (an nn.Module, a bundled name, a folder or a hub id)",
        )
    name = DEFAULTS[kind]
    if name not in bundled.models():
        raise ModelError(
            f"the bundled model '{name}', the default for {kind}, is not installed",
            argument="model",
            remedy="Pass model=, or install whyformer from its released package",
        )
    return name


def _load_bundled(model: bundled.BundledModel) -> tuple[nn.Module, Any]:
    with _lock:
        if model.folder not in _bundled:
            # Stored in 8 or 16 bits to save space.
            module = load_folder(model.folder, dtype=torch.float32)
            _bundled[model.folder] = module, load_processor(model.folder)
        return _bundled[model.folder]


def _load_hub(name: str, with_processor: bool) -> tuple[nn.Module, Any]:
    """Load from the local cache, or else from the hub."""
    failures: list[str] = []
    if HUB_ID.fullmatch(name):
        for local, where in ((True, "the local cache"), (False, "the Hugging Face hub")):
            if not local and not _is_hub_reachable():
                failures.append(f"{where} (not reachable)")
                continue
            try:
                module = _from_pretrained(name, dtype="auto", local_files_only=local)
            except ModelError:
                raise
            except Exception as error:
                failures.append(f"{where} ({first_line(error)})")
                continue
            return module, cached_processor(name, module, local) if with_processor else None
    tried = "a bundled model, a folder" + "".join(f", {failure}" for failure in failures)
    guess = nearest(name, bundled.models()).strip()
    raise ModelError(
        f"there is no model {name!r}; tried as {tried}",
        argument="model",
        remedy=f"{guess} Bundled: {_bundled_names()}".strip(),
    )


def _is_hub_reachable() -> bool:
    """Whether the hub can be reached; checked first because its own retries take long."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if urllib.request.getproxies():
        return True  # the proxy may reach it
    address = urllib.parse.urlsplit(constants.ENDPOINT)
    try:
        with socket.create_connection((address.hostname or "", address.port or 443), timeout=5):
            return True
    except OSError:
        return False


def _from_pretrained(source: str, **options: Any) -> nn.Module:
    """Load the class that the config names; raise ModelError if weights are missing."""
    import transformers

    with quiet_loading():
        check_hub_files(source, options["local_files_only"])
        config = transformers.AutoConfig.from_pretrained(
            source, local_files_only=options["local_files_only"], trust_remote_code=False
        )
        class_name = (getattr(config, "architectures", None) or [""])[0]
        architecture = getattr(transformers, class_name, None) or transformers.AutoModel
        packed = Path(source) / PACKED
        if packed.is_file():
            module, info = _load_packed(architecture, config, packed, options["dtype"])
        else:
            module, info = architecture.from_pretrained(
                source, config=config, use_safetensors=True, output_loading_info=True, **options
            )
    family = family_of(module)
    unread = family.unread if family else ()
    missing = sorted(name for name in info["missing_keys"] if not name.startswith(unread))
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ModelError(
            f"the weights of {source!r} lack {', '.join(missing[:5])}{more}, which"
            f" {type(module).__name__} needs: they would be random, and so would the explanation",
            argument="model",
            remedy="Load a checkpoint that was trained with this head, or set 'architectures' in"
            " the config to the class of the weights",
        )
    loaded: nn.Module = module.eval()
    return loaded


def _load_packed(
    architecture: Any, config: Any, path: Path, dtype: torch.dtype | str
) -> tuple[nn.Module, Mapping[str, Any]]:
    """Load weights stored in 8 bits; return what `from_pretrained` would."""
    import transformers

    module, info = architecture.from_pretrained(
        None, config=config, state_dict=read_packed(path), dtype=dtype, output_loading_info=True
    )
    # Processors and region grids are searched in this folder.
    module.name_or_path = module.config.name_or_path = str(path.parent)
    if (path.parent / "generation_config.json").is_file():
        module.generation_config = transformers.GenerationConfig.from_pretrained(
            path.parent, local_files_only=True
        )
    return module, info


def _bundled_names() -> str:
    return ", ".join(bundled.models()) or "none installed"
