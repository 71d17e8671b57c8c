"""A model that harms the process on certain inputs, for tests of failures."""

from __future__ import annotations

import os
from typing import Any

from tests.evaluation.making import classifier, sentences, tokenizer
from whyformer.models.load import Loaded


class Poisoned:
    """Makes a classifier that ends its process on one sample, and raises on another."""

    @staticmethod
    def loaded(dies: str, breaks: str) -> Loaded:
        """The classifier; samples are named by their ids in `sentences`."""
        texts = {sample.id: sample.inputs for sample in sentences(60)}
        sound = classifier()
        guard = _Guard(_ids(texts[dies]), _ids(texts[breaks]))
        sound.module.register_forward_pre_hook(guard, with_kwargs=True)
        return sound


def _ids(text: str) -> list[int]:
    found: list[int] = tokenizer()(text)["input_ids"]
    return found


class _Guard:
    def __init__(self, dies: list[int], breaks: list[int]) -> None:
        self.dies, self.breaks = dies, breaks

    def __call__(self, module: Any, args: Any, kwargs: Any) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        rows = ids.tolist() if ids is not None else []
        if self.dies in rows:
            os._exit(9)
        if self.breaks in rows:
            raise RuntimeError("poisoned")
