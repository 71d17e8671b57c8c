"""Every model type of transformers with every method: right, warned or refused, never silent.

The states are recorded in record.json; `python -m tests.matrix.record` records them anew, with
every method on every type. The slow tests try every method on a third of the types, and three
methods on the others, to save time.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
import transformers
from torch import nn

from tests.matrix import cells
from tests.matrix import record as records
from tests.matrix.builder import build, reason_against
from tests.matrix.model_types import model_types
from tests.matrix.record import matrix_methods, outcome_of, read_record, states_of, summarise
from whyformer.engine.failures import forward_failure
from whyformer.errors import ModelError

pytestmark = pytest.mark.filterwarnings("ignore")
RECORD = read_record()
TYPES: dict[str, Any] = RECORD["types"]
UNBUILT: dict[str, str] = RECORD["unbuilt"]
# One of each kind, with few methods, in the quick tests.
QUICK = (
    *("bert", "xlnet", "gpt_neox", "qwen3_moe", "mixtral", "falcon_mamba", "recurrent_gemma"),
    *("diffllama", "vit", "swinv2", "wav2vec2", "umt5", "llava", "clip", "detr"),
)
QUICK_METHODS = ("auto", "gae", "gradient_x_input")
# The types that the slow tests try with every method: a third of them, told by their names.
COMPLETE = {name for name in TYPES if crc32(name.encode()) % 3 == 0}
# What the record comes to (`python -m tests.matrix.record --summary`). A new record that is worse
# must not pass unseen: change these numbers by hand, and say why in the commit.
COUNTS = {
    "types": 442,
    "cells": {"right": 6215, "refused": 1173, "warned": 568},
    "with attention": 415,
    "right with the default": 397,
    "with a head": 357,
    "answered with nothing else": 339,
}
other_transformers = pytest.mark.skipif(
    RECORD["transformers"] != transformers.__version__,
    reason=f"recorded with transformers {RECORD['transformers']}",
)


@cache
def outcome(model_type: str, methods: tuple[str, ...]) -> Any:
    return outcome_of(model_type, methods)


def assert_as_recorded(model_type: str, methods: tuple[str, ...]) -> None:
    found = outcome(model_type, methods)
    assert not isinstance(found, str), f"does not run any more: {found}"
    line = TYPES[model_type]
    recorded = {name: state for name, state in states_of(line).items() if name in methods}
    assert states_of(found) == recorded, records.reasons_of(found)
    for fact in ("class", "attention", "head", "answers"):
        assert found[fact] == line[fact], fact


@other_transformers
@pytest.mark.parametrize("model_type", QUICK)
def test_a_sample_of_types_is_as_recorded(model_type: str) -> None:
    assert_as_recorded(model_type, QUICK_METHODS)


@other_transformers
@pytest.mark.slow
@pytest.mark.parametrize("model_type", sorted(TYPES))
def test_a_type_is_as_recorded(model_type: str) -> None:
    methods = matrix_methods() if model_type in COMPLETE else QUICK_METHODS
    assert_as_recorded(model_type, methods)


def test_a_third_of_the_types_is_tried_with_every_method() -> None:
    assert len(TYPES) / 4 < len(COMPLETE) < len(TYPES) / 2


@other_transformers
def test_every_model_type_is_recorded() -> None:
    assert {*TYPES, *UNBUILT} == {*model_types()}
    assert not {*TYPES} & {*UNBUILT}
    for line in TYPES.values():
        assert {*states_of(line)} == {*matrix_methods()}


def test_the_matrix_itself_never_fails() -> None:
    assert not [name for name, reason in UNBUILT.items() if reason.startswith("the matrix")]


def unbuilt() -> list[Any]:
    """Types that need a package which other tests import with stand-ins, apart from these."""
    apart = {name for name, reason in UNBUILT.items() if reason.startswith("ModuleNotFoundError")}
    own = pytest.mark.own_process
    return [pytest.param(name, marks=own) if name in apart else name for name in sorted(UNBUILT)]


@other_transformers
@pytest.mark.slow
@pytest.mark.parametrize("model_type", unbuilt())
def test_a_type_that_was_not_built_still_does_not_run(model_type: str) -> None:
    assert reason_against(model_type), "it runs: record it"


def test_at_least_250_types_are_built() -> None:
    assert len(TYPES) >= 250


def test_the_record_comes_to_the_counts() -> None:
    assert summarise(TYPES) == COUNTS


def test_nothing_is_wrong_without_a_word_and_most_is_right() -> None:
    counts = summarise(TYPES)
    assert not {"silent", "foreign"} & counts["cells"].keys()
    assert counts["right with the default"] >= 0.85 * counts["with attention"]
    assert counts["answered with nothing else"] >= 0.9 * counts["with a head"]


def test_the_readme_names_these_counts() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    right, attentive = COUNTS["right with the default"], COUNTS["with attention"]
    assert f"right on {right} of the {attentive} model types" in readme


def test_a_built_model_is_small_and_the_same_every_time() -> None:
    one, two = build("llama"), build("llama")
    assert sum(p.numel() for p in one.model.parameters()) < 100_000
    for ours, theirs in zip(one.model.parameters(), two.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    inputs, alone = one.inputs((7, 5)), one.inputs((7,))
    assert torch.equal(inputs["input_ids"][:1], alone["input_ids"])
    assert inputs["attention_mask"].tolist()[1] == [1, 1, 1, 1, 1, 0, 0]


def test_the_record_is_written_as_it_is_read(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "PATH", tmp_path / "record.json")
    records.write_record(RECORD)
    assert json.loads((tmp_path / "record.json").read_text("utf-8")) == RECORD


class Silent(nn.Module):
    """A model that runs without whyformer, whatever it is given."""

    def forward(self, **arguments: Any) -> None:
        return None


def state_of(error: Exception) -> str:
    try:
        raise error
    except Exception as raised:
        return cells._error_cell(raised).state


def test_a_refusal_that_blames_whyformer_is_foreign() -> None:
    assert state_of(forward_failure(Silent(), {}, ValueError("odd"))) == "foreign"
    refusal = ModelError("it has no tokens", argument="inputs", remedy="Pass some")
    assert state_of(refusal) == "refused"
