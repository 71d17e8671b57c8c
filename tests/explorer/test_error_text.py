from __future__ import annotations

import pytest

from whyformer.errors import InputError
from whyformer.explorer.error_text import ADVICE, error_text


@pytest.mark.parametrize("argument", list(ADVICE))
def test_advice_is_about_the_page(argument: str) -> None:
    error = InputError("it is\n wrong", argument=argument, remedy="Pass this=that")
    advice = f". {ADVICE[argument]}." if ADVICE[argument] else ""
    assert error_text(error) == f"it is wrong{advice}"
    assert "=" not in error_text(error)
    assert "--" not in error_text(error)


def test_any_other_remedy_is_shown_as_it_is() -> None:
    error = InputError("there is no class 'a'", argument="target", remedy="Did you mean 'b' or 'c'")
    assert error_text(error) == "there is no class 'a'. Did you mean 'b' or 'c'."
    assert error_text(InputError("it is wrong")) == "it is wrong"
