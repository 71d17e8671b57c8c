"""Small tasks for the tests of engines."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from whyformer.errors import InputError, ModelError


@dataclass(frozen=True)
class Square:
    """Squares numbers; some payloads misbehave."""

    marks: Path | None = None  # a folder in which attempts leave a file
    refuses: str = ""

    def open(self) -> Callable[[object], object]:
        if self.refuses == "ours":
            raise ModelError("this model is not there", remedy="Look elsewhere")
        if self.refuses == "foreign":
            raise KeyError("nothing")
        return self.work

    def work(self, payload: object) -> object:
        if payload == "die":
            os._exit(9)
        if payload == "die once" and self._is_first("die once"):
            os._exit(9)
        if payload == "raise":
            raise RuntimeError("it burns")
        if payload == "refuse":
            raise InputError("this input is bad")
        if payload == "threads":
            return torch.get_num_threads(), os.getpid()
        if payload == "slow":
            time.sleep(0.2)
            return os.getpid()
        if isinstance(payload, int):
            return payload * payload
        return payload

    def _is_first(self, name: str) -> bool:
        assert self.marks is not None
        mark = self.marks / name
        if mark.exists():
            return False
        mark.touch()
        return True
