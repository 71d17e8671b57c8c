"""The benchmark of supporting sentences: its prompts, its sums, and a run on the bundled model."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import whyformer as wf
from whyformer.reproduce.passages import held_out_questions


@pytest.fixture
def truth() -> Any:
    return importlib.import_module("answers_truth")


def prompt(truth: Any, support: int) -> Any:
    """Seven tokens, of which three sentences cover five."""
    return truth.Prompt((0,) * 7, ((1, 3), (3, 4), (4, 6)), support, "where", 9)


def test_a_sentence_scores_the_sum_of_its_tokens(truth: Any) -> None:
    scores = torch.tensor([9.0, 1.0, 2.0, 4.0, -5.0, 8.0, 9.0])
    assert truth.sentence_sums(prompt(truth, 0), scores).tolist() == [3.0, 4.0, 3.0]
    positive = truth.sentence_sums(prompt(truth, 0), scores.clamp(min=0))
    assert positive.tolist() == [3.0, 4.0, 8.0]


def test_a_hit_scores_more_than_every_other_sentence(truth: Any) -> None:
    sums = torch.tensor([3.0, 4.0, 8.0])
    assert [truth.is_hit(sums, i) for i in range(3)] == [False, False, True]
    assert not truth.is_hit(torch.tensor([4.0, 4.0, 1.0]), 0)  # a tie
    assert not truth.is_hit(torch.zeros(3), 2)


def test_prompts_end_before_the_word_and_know_their_sentences(truth: Any) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(wf.models()["reader"].folder)
    for read, question in held_out_questions(12):
        one = truth.read_prompt(tokenizer, read, question)
        parts = [tokenizer.decode(one.ids[start:end]).strip() for start, end in one.sentences]
        assert parts == list(read.sentences)
        assert one.support == question.support
        written = tokenizer.decode([*one.ids, one.value])
        assert written.endswith(question.answer.removesuffix("."))
        assert written.startswith("<|begin|><|user|>" + read.text)


def test_it_runs_on_few_questions(truth: Any, tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    chosen = ["--questions", "8", "--methods", "auto,random,attention_flow", "--json", str(path)]
    assert truth.main([*chosen, "--slow-questions", "4"]) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["right"] == 1
    assert {*found["methods"], *found["refused"]} == {"auto", "random", "attention_flow"}
    assert {name: one["questions"] for name, one in found["methods"].items()} == {
        "auto": 8,
        "random": 8,
        "attention_flow": 4,
    }
    assert found["methods"]["auto"]["hit"]["mean"] >= 0.75
    assert found["chance"]["hit"]["mean"] < 0.35
    assert truth.main(["--methods", "nonsense"]) == 2
