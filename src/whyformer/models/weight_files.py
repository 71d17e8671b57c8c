"""Which files weights are read from: safetensors only, named by an index that is checked first."""

from __future__ import annotations

import json
from pathlib import Path

from whyformer.errors import ModelError
from whyformer.models.config_limits import check_config
from whyformer.models.packed_weights import PACKED

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def check_weight_files(folder: Path) -> None:
    """Raise ModelError if the folder does not hold a model stored as safetensors."""
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"the folder '{folder}' has no config.json, so it is not a model",
            argument="model",
            remedy="Pass a folder that save_pretrained wrote",
        )
    check_config(folder / "config.json")
    if any((folder / name).is_file() for name in (WEIGHTS, PACKED)):
        return
    if (folder / INDEX).is_file():
        absent = [name for name in read_shards(folder / INDEX) if not (folder / name).is_file()]
        if absent:
            raise ModelError(
                f"the folder '{folder}' lacks {', '.join(absent)}, which its {INDEX} names",
                argument="model",
                remedy="Copy the missing files",
            )
        return
    pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
    if pickled:
        raise ModelError(
            f"the folder '{folder}' has no {WEIGHTS}, only {', '.join(pickled)}: pickled"
            " weights can run any code and are never loaded",
            argument="model",
            remedy="If you trust them, convert them with"
            " from_pretrained(folder).save_pretrained(folder)",
        )
    raise ModelError(
        f"the folder '{folder}' has no weights: {WEIGHTS} is missing",
        argument="model",
        remedy="Copy it there, or save the model again with save_pretrained",
    )


def check_hub_files(source: str, local_files_only: bool) -> None:
    """Raise ModelError if config or index of a model in the hub or its cache are damaged."""
    from transformers.utils import cached_file

    if Path(source).is_dir():
        return  # checked before
    for name, check in (("config.json", check_config), (INDEX, read_shards)):
        file = cached_file(
            source,
            name,
            local_files_only=local_files_only,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
            _raise_exceptions_for_gated_repo=False,
        )
        if file is not None:
            check(Path(file))


def read_shards(index: Path) -> list[str]:
    """Return the files that an index names, sorted; raise ModelError for other than safetensors.

    transformers loads whatever file the index names, pickled ones too.
    """
    try:
        names = set(json.loads(index.read_bytes())["weight_map"].values())
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{index} is not an index of weights: expected JSON with 'weight_map', the file of each"
            " weight",
            argument="model",
            remedy="Copy the file again, or save the model again with save_pretrained",
        ) from error
    wrong = sorted(str(name) for name in names if not _is_shard(name))
    if wrong or not names:
        named = f"names {wrong[0]!r}" if wrong else "names no file"
        raise ModelError(
            f"{index} {named}: weights are only read from .safetensors files in the same folder",
            argument="model",
            remedy="If you trust the weights, save the model again with save_pretrained",
        )
    return sorted(names)


def _is_shard(name: object) -> bool:
    """Whether this is the plain name of a safetensors file."""
    return isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name
