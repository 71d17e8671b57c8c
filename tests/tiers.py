"""Which tests are slow: `make test` leaves them out, `make test-all` and CI run them too.

A test is slow if it is marked `slow`, reads real data, drives a browser, or belongs to a
methods x models table and is not on one of the table's kept diagonals.
"""

from __future__ import annotations

import pytest

import whyformer as wf
from whyformer.models.families.tiny import tiny_models

# One diagonal in nine is kept: about two methods for each model and five models for each method.
# Methods that "all methods" leaves out are left to the slow tests.
KEPT = 9
METHODS = {name: place for place, name in enumerate(wf.methods())}
LEFT_OUT = {name for name, method in wf.methods().items() if not method.in_all}
MODELS = {name: place for place, name in enumerate(tiny_models())}


def is_off_diagonal(method: object, model: object) -> bool:
    """Whether a test of this method and this tiny model is left to the slow tests."""
    if method not in METHODS or model not in MODELS:
        return False
    if method in LEFT_OUT:
        return True
    return (METHODS[str(method)] + MODELS[str(model)]) % KEPT != 0


def is_slow(item: pytest.Item) -> bool:
    """Whether a collected test belongs to the slow tests."""
    if item.get_closest_marker("slow") or item.get_closest_marker("data"):
        return True
    if "browser" in item.path.stem:
        return True
    call = getattr(item, "callspec", None)
    return call is not None and is_off_diagonal(call.params.get("method"), call.params.get("name"))
