"""Which tests are slow: `make test` leaves them out, `make test-all` and CI run them too.

A test is slow if it is marked `slow`, reads real data, drives a browser, or belongs to a
methods x models table and is not on the table's quick diagonals. Of the tests of newer models, the
quick tests try every ninth model, and of all other cases of a test every third.

Tests of newer models off the thinned diagonals run in no tier, to keep CI within an hour. The
generated matrix (tests/matrix) tries every method that is not declared slow on every type of model
that it can build; `python -m tests.matrix.record` runs all of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

import whyformer as wf
from whyformer.models.families.tiny import tiny_models

METHODS = {name: place for place, name in enumerate(wf.methods())}
MODELS = {name: place for place, name in enumerate(tiny_models())}
# Methods that "all methods" leaves out are left to the slow tests. Of the others, the quick tests
# try one on each model: about six models for each method.
LEFT_OUT = {name for name, method in wf.methods().items() if not method.in_all}
QUICK_METHODS = {name: place for place, name in enumerate(m for m in METHODS if m not in LEFT_OUT)}
# Models whose tables run with every method; of the others' tables, one diagonal in THINNED.
_COMPLETE = (
    "albert albert_groups bart beit beit_class_token bert blip_answering blip_captioning"
    " blip_matching camembert clip deberta_v2 deberta_v2_conv deit deit_teacher detr dinov2"
    " dinov2_giant dinov2_registers distilbert electra gemma gemma2 gemma3 gpt2 llama lxmert"
    " marian modernbert modernbert_mean mpnet qwen2 qwen3 roberta siglip t5 t5_gated vilt"
    " vision_encoder_decoder vision_gpt2 visual_bert vit whisper xlm_roberta yolos"
)
COMPLETE = frozenset(_COMPLETE.split())
THINNED = 3
QUICK_NEWER = 9  # of the newer models, the quick tests try one in this many
# Of the cases of a test that are not in a table, too. .ci/run sets it to 1 for the numeric tests.
QUICK_CASES = int(os.environ.get("WHYFORMER_TEST_CASES", "3"))


def newer_are_slow(names: Iterable[str]) -> list[Any]:
    """Parameters of a test of every tiny model: the newer models are left to the slow tests."""
    slow = pytest.mark.slow
    return [name if name in COMPLETE else pytest.param(name, marks=slow) for name in names]


def is_a_cell(method: object, model: object) -> bool:
    """Whether these parameters of a test are a method and a tiny model."""
    return method in METHODS and model in MODELS


def is_off_diagonal(method: object, model: object) -> bool:
    """Whether a test of this method and this tiny model is left to the slow tests."""
    if not is_a_cell(method, model):
        return False
    if method in LEFT_OUT:
        return True
    return (QUICK_METHODS[str(method)] + MODELS[str(model)]) % len(QUICK_METHODS) != 0


def is_left_to_slow(model: object) -> bool:
    """Whether the tests of this tiny model are slow: most newer models."""
    return model in MODELS and model not in COMPLETE and MODELS[str(model)] % QUICK_NEWER != 0


def is_thinned_out(method: object, model: object) -> bool:
    """Whether a test of this method and this tiny model does not run in any tier."""
    if not is_a_cell(method, model) or model in COMPLETE or not is_off_diagonal(method, model):
        return False
    return (METHODS[str(method)] + MODELS[str(model)]) % THINNED != 0


def _cell(item: pytest.Item) -> tuple[object, object]:
    """The method and the model among a test's parameters; None where it has none."""
    call = getattr(item, "callspec", None)
    return (call.params.get("method"), call.params.get("name")) if call else (None, None)


def is_spare_case(item: pytest.Item) -> bool:
    """Whether this case of a test is left to the slow tests; the first one never is."""
    call = getattr(item, "callspec", None)
    if call is None or is_a_cell(*_cell(item)):
        return False
    return sum(call.indices.values()) % QUICK_CASES != 0


def is_slow(item: pytest.Item) -> bool:
    """Whether a collected test belongs to the slow tests."""
    if item.get_closest_marker("slow") or item.get_closest_marker("data"):
        return True
    method, model = _cell(item)
    return (
        "browser" in item.path.stem
        or is_left_to_slow(model)
        or is_off_diagonal(method, model)
        or is_spare_case(item)
    )


def is_left_out(item: pytest.Item) -> bool:
    """Whether a collected test runs in no tier."""
    return is_thinned_out(*_cell(item))
