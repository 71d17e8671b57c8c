"""Stand-ins for torchvision: timm and quantus import it, and here it is not installed.

timm needs it for its data pipelines and for two feature extractors, not for the transformers.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

_NAMES = (
    "torchvision torchvision.transforms torchvision.transforms.functional torchvision.ops"
    " torchvision.ops.misc torchvision.models torchvision.models.feature_extraction"
    " torchvision.models.resnet torchvision.models.vgg torchvision.datasets"
)


class _Meta(type):
    """Classes that have every constant, such as InterpolationMode.BICUBIC."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Stub(ModuleType):
    """A module that has a class of every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Meta(name, (), {})


def import_with_stub(name: str) -> Any:
    """A package (timm, open_clip), imported with stand-ins for torchvision if that is missing."""
    try:
        importlib.import_module("torchvision")
    except ImportError:
        added = {name: _Stub(name) for name in _NAMES.split()}
        for stub, module in added.items():
            module.__spec__ = importlib.machinery.ModuleSpec(stub, None)
            module.__path__ = []
            parent, _, child = stub.rpartition(".")
            if parent:
                setattr(added[parent], child, module)
        sys.modules.update(added)
        try:
            return importlib.import_module(name)
        finally:
            for stub in added:  # transformers must not find them
                del sys.modules[stub]
    return importlib.import_module(name)


def import_timm() -> Any:
    """timm, imported with stand-ins for torchvision if that is missing."""
    return import_with_stub("timm")
