"""Import other packages, with stand-ins for missing names that they do not need here."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from torch import nn


@contextmanager
def _stand_ins(modules: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Provide names that a peer imports and does not need here, during its import."""
    added: list[tuple[dict[str, Any], str]] = []
    absent = {name for name in modules if importlib.util.find_spec(_top(name)) is None}
    for name, content in modules.items():
        if name in absent:
            sys.modules[name] = types.ModuleType(name)
            added.append((sys.modules, name))
            above, _, own = name.rpartition(".")
            if above:
                setattr(sys.modules[above], own, sys.modules[name])
        place = vars(importlib.import_module(name))
        new = {key: value for key, value in content.items() if key not in place}
        place.update(new)
        added += [(place, key) for key in new]
    try:
        yield
    finally:
        for holder, key in reversed(added):
            del holder[key]


def _load(module: str, stand_ins: dict[str, dict[str, Any]]) -> str:
    """Import a peer; return the error message if it needed stand-ins, else None."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        if not stand_ins or importlib.util.find_spec(_top(module)) is None:
            raise
        with _stand_ins(stand_ins):
            importlib.import_module(module)
        return one_line(error)
    return ""


def _top(module: str) -> str:
    return module.partition(".")[0]


def one_line(error: Exception) -> str:
    """The text of an error in one line, without paths of this machine."""
    words = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {words.partition(' (/')[0]}"


def _class(name: str) -> type:
    return type(name, (), {})


RESNET = {"Bottleneck": _class("Bottleneck"), "BasicBlock": _class("BasicBlock")}
TORCHVISION: dict[str, dict[str, Any]] = {
    "torchvision": {},
    "torchvision.models": {},
    "torchvision.models.resnet": RESNET,
    "torchvision.models.vision_transformer": {"nn": nn},
}
captum = cache(partial(_load, "captum.attr", {}))
autolrp = cache(partial(_load, "autolrp", {}))
zennit = cache(partial(_load, "zennit.attribution", TORCHVISION))
# For pruning heads, which is not used here; transformers 5 no longer has it.
PRUNING = {"find_pruneable_heads_and_indices": None, "prune_linear_layer": None}
lxt = cache(partial(_load, "lxt.efficient", TORCHVISION | {"transformers.pytorch_utils": PRUNING}))
