"""The parts of a model: all of them, once each."""

from __future__ import annotations

import time

from torch import nn

import whyformer as wf
from whyformer.models.parts import modules_of


def test_all_parts_of_every_family_are_found_once() -> None:
    tiny = [family.tiny for family in wf.families().values() if family.tiny is not None]
    assert tiny
    for make in tiny:
        model = make()
        parts = modules_of(model)
        assert len(parts) == len(set(parts))
        assert set(parts) == set(model.modules())


def test_parts_that_are_left_out_or_shared() -> None:
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, nn.Sequential(shared, nn.ReLU()), shared)
    model.register_module("nothing", None)
    assert set(modules_of(model)) == set(model.modules())
    assert len(modules_of(model)) == 4


def test_parts_that_are_shared_on_every_level_are_walked_once() -> None:
    model: nn.Module = nn.Linear(2, 2)
    for _ in range(60):
        model = nn.Sequential(model, model)
    start = time.perf_counter()
    assert len(modules_of(model)) == 61
    assert time.perf_counter() - start < 5  # 2^60 visits would not end
