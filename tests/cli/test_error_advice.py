"""Errors in the command line's terms: every argument that the package names, and its advice."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from torch import nn
from typer.main import get_command

import whyformer
from whyformer.cli.app import application
from whyformer.cli.error_advice import ADVICE, describe_error
from whyformer.errors import InputError, OptionError, TargetError
from whyformer.targets.labels import ClassNames

PACKAGE = Path(whyformer.__file__).parent


def raised_arguments() -> list[str]:
    """Every `argument="..."` of an error in the package."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.keyword) or node.arg != "argument":
                continue
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                found.add(node.value.value)
    return sorted(found)


@pytest.mark.parametrize("argument", [*ADVICE, *(a for a in raised_arguments() if a not in ADVICE)])
def test_every_argument_gets_advice_or_its_own_remedy(argument: str) -> None:
    error = OptionError("it is wrong", argument=argument, remedy="Do that")
    advice = ADVICE.get(argument, "Do that").replace("{remedy}", "Do that")
    assert describe_error(error) == f"it is wrong. {advice}."


def test_advice_names_options_that_exist() -> None:
    commands = get_command(application()).commands.values()  # type: ignore[attr-defined]
    options = {name for one in commands for each in one.params for name in each.opts}
    for advice in ADVICE.values():
        assert set(re.findall(r"--[a-z-]+", advice)) <= options


def test_an_error_without_a_remedy_is_its_message() -> None:
    assert describe_error(InputError("it is wrong")) == "it is wrong"
    assert describe_error(InputError("it is wrong", argument="model")) == "it is wrong"


def test_a_remedy_may_hold_braces_and_line_breaks() -> None:
    error = InputError("a {b}\n c", argument="model", remedy="Use {name}.\n Or not.")
    assert describe_error(error) == "a {b} c. Use {name}. Or not (--model)."


def test_a_class_that_does_not_exist() -> None:
    with pytest.raises(TargetError) as refused:
        ClassNames(nn.Module(), 2, ("good", "bad")).index("god")
    assert describe_error(refused.value) == (
        "there is no class 'god'. Did you mean 'good'? Classes: 0 ('good'), 1 ('bad'). Choose"
        " another --target, or leave it out for the prediction."
    )


def test_a_question_has_no_full_stop() -> None:
    error = InputError("there is no 'a'. Did you mean 'b'?", remedy="Choose another")
    assert describe_error(error) == "there is no 'a'. Did you mean 'b'? Choose another."
