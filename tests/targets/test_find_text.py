"""Tokens and spans that are named by their text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import whyformer as wf
from tests.chat_models import chat_tokenizer, language_model
from tests.wordpiece import wordpiece_of
from whyformer.errors import TargetError
from whyformer.inputs.prepare import prepare
from whyformer.targets.find_text import Match, find_text
from whyformer.targets.resolve import resolve

Build = Callable[..., nn.Module]
TEXT = "The capital of Germany is Berlin. Berlin is the capital 😀 café"
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "where",
    "is",
    "it",
    "?",
    "in",
    "ber",
    "##lin",
    "and",
    "par",
    "##is",
    "isn",
    "'",
    "t",
    "the",
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return chat_tokenizer()


@pytest.fixture(scope="module")
def words() -> Any:
    return wordpiece_of(WORDS, lower=True)


@pytest.mark.parametrize(
    ("text", "occurrence", "found"),
    [
        ("Germany", None, "Germany"),
        (" Germany", None, "Germany"),
        ("germany", None, "Germany"),  # no other case is there
        ("Germany is Berlin", None, "Germany is Berlin"),
        ("Berlin", 0, "Berlin"),
        ("Berlin", -1, "Berlin"),
        ("😀", None, "😀"),
        ("café", None, "café"),
        (".", None, "."),
    ],
)
def test_found_by_text(tokenizer: Any, text: str, occurrence: int | None, found: str) -> None:
    batch = prepare(TEXT, language_model("llama"), tokenizer)
    match = find_text(text, batch, 0, occurrence)
    ids = batch.arguments["input_ids"][0, match.first : match.last + 1]
    assert tokenizer.decode(ids).strip() == found


def test_occurrences_are_counted_from_the_left(tokenizer: Any) -> None:
    batch = prepare(TEXT, language_model("llama"), tokenizer)
    first, second = (find_text("Berlin", batch, 0, occurrence).first for occurrence in (0, 1))
    assert first < second
    assert find_text("Berlin", batch, 0, -1).first == second


@pytest.mark.parametrize(
    ("text", "occurrence", "message"),
    [
        ("Paris", None, r"has no 'Paris'; it has 'The', 'capital', .*whole tokens"),
        ("erman", None, "has no 'erman'"),
        (" ", None, "has no ' '"),
        ("Berlin", None, r"has 'Berlin' 2 times, at positions \d+, \d+\. Pass occurrence=0 to 1"),
        ("Berlin", 2, "no occurrence 2 of 'Berlin'.*occurrence=0 to 1"),
    ],
)
def test_errors(tokenizer: Any, text: str, occurrence: int | None, message: str) -> None:
    batch = prepare(TEXT, language_model("llama"), tokenizer)
    with pytest.raises(TargetError, match=message):
        find_text(text, batch, 0, occurrence)


def test_no_tokenizer() -> None:
    batch = prepare({"input_ids": [[5, 6]]}, language_model("llama"))
    with pytest.raises(TargetError, match=r"without a tokenizer.*position as an integer"):
        find_text("5", batch, 0)


def test_whole_words_come_first(words: Any, build: Build) -> None:
    model = build("BertForMaskedLM")
    batch = prepare("in paris, is it?", model, words)  # "par ##is" has "is" too
    assert find_text("is", batch, 0) == Match(5, 5)
    assert find_text("Paris", batch, 0) == Match(2, 3)
    apart = prepare("isn't it", model, words)
    assert find_text("isn't", apart, 0) == Match(1, 3)


def test_positions_in_front_of_padding(tokenizer: Any) -> None:
    """What is found is the same with padding on the left, which is moved inside."""
    model = language_model("llama")
    ids = torch.tensor(tokenizer([TEXT])["input_ids"])
    left = {
        "input_ids": torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], 1),
        "attention_mask": torch.cat([torch.zeros(1, 3), torch.ones_like(ids)], 1).long(),
    }
    target = wf.token("Germany")
    found = wf.explain(left, model, tokenizer=tokenizer, method="gradient_x_input", target=target)
    plain = wf.explain(TEXT, model, tokenizer=tokenizer, method="gradient_x_input", target=target)
    torch.testing.assert_close(found.scores[:, 3:], plain.scores)
    with pytest.raises(TargetError, match=rf"positions {3 + 5}, "):
        wf.explain(left, model, tokenizer=tokenizer, target=wf.token("Berlin"))


# -- what they mean in each kind of model -----------------------------------------------------


def test_a_language_model_predicts_the_text_from_what_is_before(tokenizer: Any) -> None:
    model = language_model("llama")
    prepared = prepare(TEXT, model, tokenizer)
    output = model(**prepared.arguments)
    match = find_text("Germany is", prepared, 0)
    ids = prepared.arguments["input_ids"][0]
    columns = range(match.first, match.last + 1)
    expected = sum(output.logits[0, column - 1, ids[column]] for column in columns)
    goal = resolve(wf.token("Germany is"), output, model, prepared)
    torch.testing.assert_close(goal.value[0], expected)
    assert goal.labels == ("Germany is",)
    other = resolve(wf.token("Germany", 7), output, model, prepared)
    torch.testing.assert_close(other.value[0], output.logits[0, match.first - 1, 7])
    with pytest.raises(TargetError, match="'The' is the first token of sample 0: nothing comes"):
        resolve(wf.token("The"), output, model, prepared)


def test_the_class_of_a_word(words: Any, build: Build) -> None:
    model = build("BertForTokenClassification", num_labels=3)
    prepared = prepare("it is in berlin", model, words)
    output = model(**prepared.arguments)
    goal = resolve(wf.token("Berlin", 2), output, model, prepared)
    torch.testing.assert_close(goal.value[0], output.logits[0, 4, 2])
    last = resolve(wf.token(-1, 2), output, model, prepared)
    torch.testing.assert_close(last.value[0], output.logits[0, 6, 2])


def test_spans_are_positions_or_text() -> None:
    assert wf.span("Berlin").end is None
    for bad in (lambda: wf.span(3), lambda: wf.span("Berlin", 3)):
        with pytest.raises(TargetError, match=r"a span from .*wf.span\(text\)"):
            bad()


# -- question answering -----------------------------------------------------------------------


def best_by_hand(output: Any, allowed: list[int], longest: int = 15) -> tuple[int, int]:
    """The span with the highest sum, tried one by one."""
    start, end = output.start_logits[0].detach(), output.end_logits[0].detach()
    pairs = [(i, j) for i in allowed for j in allowed if i <= j < i + longest]
    return max(pairs, key=lambda pair: float(start[pair[0]] + end[pair[1]]))


QUESTION, CONTEXT = "where is it ?", "it is in berlin and in paris"


@pytest.mark.parametrize("known", ["tokenizer", "types", "separators"])
def test_the_best_answer_is_in_the_context(words: Any, build: Build, known: str) -> None:
    """As in pipelines: the question and special tokens are no answers."""
    model: Any = build("BertForQuestionAnswering")
    prepared = prepare((QUESTION, CONTEXT), model, words)
    ids = prepared.arguments["input_ids"][0].tolist()
    assert ids.count(3) == 2
    context = list(range(ids.index(3) + 1, len(ids) - 1))
    with torch.no_grad():  # the question would win
        output = model(**prepared.arguments)
        output.start_logits[0, 1] += 50
        output.end_logits[0, [2, len(ids) - 1]] += 50
    arguments = dict(prepared.arguments)
    if known != "tokenizer":
        names = ("input_ids", "token_type_ids") if known == "types" else ("input_ids",)
        prepared = prepare({name: arguments[name] for name in names}, model, words)
        assert prepared.parts is None
    goal = resolve(None, output, model, prepared)
    first, last = best_by_hand(output, context)
    assert goal.labels[0].startswith(f"tokens {first} to {last}")


def test_an_answer_has_at_most_fifteen_tokens(words: Any, build: Build) -> None:
    model: Any = build("BertForQuestionAnswering")
    prepared = prepare((QUESTION, "in " * 25), model, words)
    output = model(**prepared.arguments)
    with torch.no_grad():
        output.start_logits[0, 7] += 50
        output.end_logits[0, 30] += 50
    context = list(range(6, output.start_logits.shape[1] - 1))
    first, last = best_by_hand(output, context)
    assert last - first < 15
    label = resolve(None, output, model, prepared).labels[0]
    assert label.startswith(f"tokens {first} to {last}")


def test_an_answer_by_its_text(words: Any, build: Build) -> None:
    """The context is searched before the question."""
    model: Any = build("BertForQuestionAnswering")
    prepared = prepare((QUESTION, CONTEXT), model, words)
    output = model(**prepared.arguments)
    goal = resolve(wf.span("in Berlin"), output, model, prepared)
    expected = output.start_logits[0, 8] + output.end_logits[0, 10]
    torch.testing.assert_close(goal.value[0], expected)
    where = resolve(wf.span("it"), output, model, prepared)  # the question has it too
    torch.testing.assert_close(where.value[0], output.start_logits[0, 6] + output.end_logits[0, 6])
    with pytest.raises(TargetError, match="'in' 2 times, at positions 8, 12"):
        resolve(wf.span("in"), output, model, prepared)
    second = resolve(wf.span("in", occurrence=1), output, model, prepared)
    assert second.index.tolist() == [12]
