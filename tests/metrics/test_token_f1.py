"""Token-F1 by hand and against ERASER's sets, written out."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import whyformer as wf
from tests.metrics.making import text
from whyformer.errors import InputError, OptionError

TOKEN_F1 = wf.metrics()["token_f1"]


def test_by_hand() -> None:
    """Top 1: hit, P = 1, R = 1/2. Top 2: one hit, P = R = 1/2. Top 3: P = 2/3, R = 1."""
    attribution = text([[4.0, 1.0, 3.0, 2.0]])
    marked = torch.tensor([[True, False, False, True]])
    score = TOKEN_F1(attribution, rationales=marked, k=(1, 2, 3), level="token")
    assert score.curve is not None
    assert score.curve[0].tolist() == pytest.approx([2 / 3, 1 / 2, 4 / 5])
    assert score.values.tolist() == pytest.approx([(2 / 3 + 1 / 2 + 4 / 5) / 3])
    assert score.steps == (1, 2, 3)


def test_words_by_hand() -> None:
    """[CLS] and [SEP] dwarf the words and are never chosen; a word is its best token, or its sum.

    Best: word 0 has 5, word 1 has 3, word 2 has 4. Sums: 5, 6, 4.
    """
    words = ((None, 0, 1, 1, 2, None),)
    attribution = text([[9.0, 5.0, 3.0, 3.0, 4.0, 9.0]], word_ids=words)
    for pool, first in (("max", 0), ("sum", 1)):
        for word in range(3):
            marked = torch.zeros(1, 3).bool()
            marked[0, word] = True
            score = TOKEN_F1(attribution, rationales=marked, k=(1,), pool=pool)
            assert score.mean == pytest.approx(float(word == first))
            assert f"{pool} of its tokens" in score.convention


def test_negative_words_are_not_lifted_to_nothing() -> None:
    attribution = text([[-3.0, -2.0, -1.0]], word_ids=((0, 0, 1),))
    score = TOKEN_F1(attribution, rationales=torch.tensor([[False, True]]), k=(1,))
    assert score.mean == pytest.approx(1)


def test_special_tokens_are_neither_chosen_nor_missed() -> None:
    attribution = text([[9.0, 1.0, 2.0, 9.0]], word_ids=((None, 0, 0, None),))
    marked = torch.tensor([[True, False, True, True]])
    score = TOKEN_F1(attribution, rationales=marked, k=(1,), level="token")
    assert score.mean == pytest.approx(1)
    keep = torch.tensor([[False, False, True, False]])
    score = TOKEN_F1(attribution, rationales=marked, keep=keep, k=(1,), level="token")
    assert score.mean == pytest.approx(0)


def test_words_of_a_pair_are_counted_on() -> None:
    words = ((None, 0, 1, None, 0, 1, 1, None),)
    attribution = text([[0.0, 1.0, 2.0, 0.0, 3.0, 1.0, 9.0, 0.0]], word_ids=words)
    for word, hit in ((0, 0), (1, 0), (2, 0), (3, 1)):
        marked = torch.zeros(1, 4).bool()
        marked[0, word] = True
        assert TOKEN_F1(attribution, rationales=marked, k=(1,)).mean == pytest.approx(hit)


def test_marked_words_behind_the_end_are_missed() -> None:
    attribution = text([[2.0, 1.0]], word_ids=((0, 1),))
    marked = torch.tensor([[True, False, False, True]])
    score = TOKEN_F1(attribution, rationales=marked, k=(1,))
    assert score.mean == pytest.approx(2 / 3)  # P = 1, R = 1/2


def test_rationales_may_stop_before_the_text() -> None:
    attribution = text([[2.0, 1.0, 3.0]], word_ids=((0, 1, 2),))
    score = TOKEN_F1(attribution, rationales=torch.tensor([[True]]), k=(1, 2))
    assert score.curve is not None
    assert score.curve[0].tolist() == pytest.approx([0, 2 / 3])


@given(tokens=st.integers(1, 100), seed=st.integers(0, 99), share=st.sampled_from([0.0, 0.2, 1.0]))
def test_against_erasers_sets(tokens: int, seed: int, share: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(tokens, generator=generator).double()
    marked = torch.rand(tokens, generator=generator) < share
    truth, found = {i for i in range(tokens) if marked[i]}, []
    ranked = sorted(range(tokens), key=lambda t: -float(scores[t]))
    for k in range(10, 81, 10):
        chosen = set(ranked[:k])
        precision = len(truth & chosen) / len(chosen)
        recall = len(truth & chosen) / len(truth) if truth else 0
        none = precision == 0 or recall == 0
        found.append(0 if none else 2 * precision * recall / (precision + recall))
    score = TOKEN_F1(text(scores.unsqueeze(0)), rationales=marked.unsqueeze(0), level="token")
    assert score.curve is not None
    assert score.curve[0].tolist() == pytest.approx(found)
    assert score.mean == pytest.approx(sum(found) / 8)


def test_perfect_beats_random_beats_adversarial() -> None:
    generator = torch.Generator().manual_seed(0)
    marked = torch.rand(20, 100, generator=generator) < 0.2
    perfect, random, adversarial = (
        TOKEN_F1(text(scores), rationales=marked, level="token").mean
        for scores in (
            marked.double(),
            torch.rand(20, 100, generator=generator).double(),
            -marked.double(),
        )
    )
    assert perfect > random + 0.1 > adversarial + 0.2


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="has no words: use level='token'"):
        TOKEN_F1(text([[1.0]]), rationales=torch.tensor([[True]]))
    with pytest.raises(InputError, match="one per token"):
        TOKEN_F1(text([[1.0]]), rationales=torch.ones(1, 2).bool(), level="token")
    with pytest.raises(InputError, match=r"expected \(1, words\)"):
        TOKEN_F1(text([[1.0]], word_ids=((0,),)), rationales=torch.ones(2, 2).bool())
    for wrong in ((), (0, 1), (2, 1), (1, 1)):
        with pytest.raises(OptionError, match="rising numbers"):
            TOKEN_F1(text([[1.0]]), rationales=torch.ones(1, 1).bool(), level="token", k=wrong)
