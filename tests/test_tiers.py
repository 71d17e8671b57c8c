"""The quick tests still reach every method and every model."""

from __future__ import annotations

from tests.tiers import KEPT, LEFT_OUT, METHODS, MODELS, is_off_diagonal


def test_every_method_and_every_model_is_on_a_kept_diagonal() -> None:
    kept = [(m, n) for m in METHODS for n in MODELS if not is_off_diagonal(m, n)]
    assert {method for method, _ in kept} == set(METHODS) - LEFT_OUT
    assert {model for _, model in kept} == set(MODELS)
    assert len(kept) <= len(METHODS) * len(MODELS) / KEPT + 1


def test_other_parameters_are_no_table() -> None:
    assert not is_off_diagonal(None, "bert")
    assert not is_off_diagonal("gae", None)
    assert not is_off_diagonal("gae", "no such model")
