"""A sub-command that takes each option once, and its defaults from `whyformer.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand

from whyformer.cli.config import CONFIG
from whyformer.cli.console import note
from whyformer.cli.front_page import show_flags
from whyformer.errors import OptionError

USAGE_ERROR: Any = typer.BadParameter.__base__  # of click, or of typer's copy of it

# What else to do if an option is given twice, where there is a way.
REMEDIES = {
    "--model": "Pass one. To compare models: whyformer compare INPUT --model A --model B",
    "--method": "Pass one. To compare methods: whyformer compare INPUT --methods A,B",
    "--target": "Pass one. To compare targets: whyformer compare INPUT --target A --target B",
}


class StrictCommand(TyperCommand):
    """Refuse an option that is given twice: click would use the last one without a word."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as the help page shows them."""
        return show_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; say which options come from the config file."""
        if ctx.resilient_parsing:  # as in shell completion
            return super().parse_args(ctx, args)
        help_page = f"See {ctx.command_path} --help"
        try:
            values, words, order = self.make_parser(ctx).parse_args(args=list(args))
        except USAGE_ERROR as error:
            raise OptionError(error.format_message(), remedy=help_page) from error
        _refuse_repeated(order)
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            raise OptionError(_bad_value(error, values), remedy=help_page) from error
        except USAGE_ERROR as error:
            if len(words) > 1:
                help_page = "Put a text with spaces into quotes"
            raise OptionError(error.format_message(), remedy=help_page) from error
        _note_config(self.get_params(ctx), ctx)
        return rest


def _bad_value(error: Any, values: Mapping[str, Any]) -> str:
    """What is wrong with the value of an option, with the value."""
    value = values.get(error.param.name) if error.param is not None else None
    if not isinstance(value, str):  # from the config file, or a list
        return str(error.format_message()).rstrip(".")
    name = max(error.param.opts, key=len) if error.param.param_type_name == "option" else ""
    reason = str(error.message).rstrip(".").removeprefix("Value error, ")
    return f"{name} {value!r} is not possible: {reason[:1].lower()}{reason[1:]}".strip()


def _refuse_repeated(order: list[Any]) -> None:
    """Raise OptionError if an option that takes one value is there twice."""
    options = [one for one in order if one.param_type_name == "option"]
    for parameter in dict.fromkeys(options):
        single = not (parameter.multiple or parameter.is_flag)
        if single and order.count(parameter) > 1:
            name = max(parameter.opts, key=len)
            raise OptionError(
                f"{name} is given {order.count(parameter)} times, and takes one value",
                remedy=REMEDIES.get(name, "Pass it once"),
            )


def _note_config(parameters: list[Any], ctx: Any) -> None:
    """Print the options whose values are from the config file."""
    found = []
    for parameter in parameters:
        source = ctx.get_parameter_source(parameter.name) if parameter.name else None
        if source is not None and source.name == "DEFAULT_MAP":
            value = ctx.default_map[parameter.name]
            found.append(f"{max(parameter.opts, key=len)} = {value!r}")
    if found:
        note(f"from {CONFIG}: {', '.join(found)}")
