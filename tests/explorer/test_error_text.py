from __future__ import annotations

import pytest
from torch import nn

from whyformer.errors import InputError, TargetError
from whyformer.explorer.error_text import ADVICE, error_text
from whyformer.targets.labels import ClassNames


@pytest.mark.parametrize("argument", list(ADVICE))
def test_advice_is_about_the_page(argument: str) -> None:
    error = InputError("it is\n wrong", argument=argument, remedy="Pass this=that")
    advice = f". {ADVICE[argument]}." if ADVICE[argument] else ""
    assert error_text(error) == f"it is wrong{advice}"
    assert "=" not in error_text(error)
    assert "--" not in error_text(error)


def test_any_other_remedy_is_shown_unchanged() -> None:
    error = InputError("the methods do not work", argument="method", remedy="Use 'b' or 'c'")
    assert error_text(error) == "the methods do not work. Use 'b' or 'c'."
    assert error_text(InputError("it is wrong")) == "it is wrong"


def test_what_a_name_could_mean_stays() -> None:
    with pytest.raises(TargetError) as refused:
        ClassNames(nn.Module(), 2, ("good", "bad")).index("god")
    assert error_text(refused.value) == (
        "there is no class 'god'. Did you mean 'good'? Classes: 0 ('good'), 1 ('bad'). Change"
        " the field Why, or leave it empty for the prediction."
    )
