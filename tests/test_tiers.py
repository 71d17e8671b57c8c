"""The quick tests and the thinned slow tests still reach every method and every model."""

from __future__ import annotations

from tests.tiers import (
    COMPLETE,
    LEFT_OUT,
    METHODS,
    MODELS,
    QUICK_METHODS,
    THINNED,
    is_off_diagonal,
    is_thinned_out,
)


def test_every_method_and_every_model_is_on_a_kept_diagonal() -> None:
    kept = [(m, n) for m in METHODS for n in MODELS if not is_off_diagonal(m, n)]
    assert {method for method, _ in kept} == set(METHODS) - LEFT_OUT
    assert sorted(model for _, model in kept) == sorted(MODELS)


def test_complete_models_run_with_every_method() -> None:
    assert set(MODELS) > COMPLETE
    assert not [(m, n) for m in METHODS for n in COMPLETE if is_thinned_out(m, n)]


def test_every_method_and_every_other_model_runs_somewhere() -> None:
    others = MODELS.keys() - COMPLETE
    kept = [(m, n) for m in METHODS for n in others if not is_thinned_out(m, n)]
    assert {method for method, _ in kept} == set(METHODS)
    assert {model for _, model in kept} == others
    every = len(METHODS) * len(others)
    assert every / THINNED <= len(kept) <= every / THINNED + len(others)


def test_quick_tests_are_never_thinned_out() -> None:
    cells = [(m, n) for m in QUICK_METHODS for n in MODELS]
    assert not [one for one in cells if is_thinned_out(*one) and not is_off_diagonal(*one)]


def test_other_parameters_are_no_table() -> None:
    for is_taken_out in (is_off_diagonal, is_thinned_out):
        assert not is_taken_out(None, "bert")
        assert not is_taken_out("gae", None)
        assert not is_taken_out("gae", "no such model")
