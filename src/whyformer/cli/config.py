"""`whyformer.toml` in the working folder: defaults for the options of the commands.

    model = "./my-model"     # for every command that has --model

    [explain]                # for one command
    method = "gae"
    bars = true

What is typed on the command line comes first. Options that write files are not read from it, so
that nothing is overwritten because of the folder that a command runs in.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from whyformer.attribution import file_views
from whyformer.errors import OptionError
from whyformer.registry import nearest

CONFIG = "whyformer.toml"
OUTPUTS = ("out", "save")  # and one option per view
LARGEST = 100_000  # bytes

Defaults = dict[str, dict[str, Any]]  # by command, by parameter


def read_config(folder: Path, commands: Mapping[str, Any]) -> Defaults:
    """Return the defaults of every command from the file in this folder; none without a file.

    Args:
        folder: Where to look; its parents are not searched.
        commands: The commands of the program by name, with their parameters.

    Raises:
        OptionError: The file is not TOML, or has a key that no command has.
    """
    file = folder / CONFIG
    if not file.is_file():
        return {}
    found: Defaults = {name: {} for name in commands}
    for key, value in _read(file).items():
        if isinstance(value, dict):
            _check_known(f"[{key}]", key, commands, "command")
            for option, own in value.items():
                known = _parameters(commands[key])
                _check_known(f"{option!r} in [{key}]", option, known, "option")
                found[key][known[_plain(option)].name] = _check_value(
                    option, own, known[_plain(option)]
                )
            continue
        takers = {
            name: known[_plain(key)]
            for name, command in commands.items()
            for known in [_parameters(command)]
            if _plain(key) in known
        }
        if not takers:
            every = [name for command in commands.values() for name in _parameters(command)]
            _check_known(repr(key), key, every, "option")
        for name, parameter in takers.items():
            # The table of a command comes before what is for all.
            found[name].setdefault(parameter.name, _check_value(key, value, parameter))
    return found


def _read(file: Path) -> dict[str, Any]:
    """The content of the file, tables last."""
    try:
        if file.stat().st_size > LARGEST:
            raise OptionError(f"{CONFIG} has more than {LARGEST} bytes", remedy="Shorten it")
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise OptionError(
            f"{CONFIG} in this folder cannot be read: {str(error).splitlines()[0]}",
            remedy='Write lines such as model = "sst2"',
        ) from error
    return dict(sorted(content.items(), key=lambda item: not isinstance(item[1], dict)))


def _plain(key: str) -> str:
    """The name of an option as in the table of parameters: without dashes in front."""
    return key.lstrip("-").replace("_", "-")


def _parameters(command: Any) -> dict[str, Any]:
    """The options of a command by their long names."""
    return {
        name[2:]: parameter
        for parameter in command.params
        for name in parameter.opts
        if name.startswith("--")
    }


def _check_known(where: str, key: str, known: Iterable[str], kind: str) -> None:
    """Raise OptionError if a key names nothing."""
    names = sorted(set(known))
    plain = _plain(key) if kind == "option" else key
    if plain not in names:
        raise OptionError(
            f"{CONFIG} has {where}, and there is no such {kind}.{nearest(plain, names)}",
            remedy=f"Choose one of {', '.join(names)}",
        )


def _check_value(key: str, value: Any, parameter: Any) -> Any:
    """The value of an option; raise OptionError if it is of the wrong kind."""
    if _plain(key) in (*OUTPUTS, *file_views()):
        raise OptionError(
            f"{CONFIG} sets {key!r}, which writes a file",
            remedy=f"Name the file on the command line, with --{_plain(key)}",
        )
    flag, several = getattr(parameter, "is_flag", False), getattr(parameter, "multiple", False)
    values = value if several and isinstance(value, list) else [value]
    kinds = (bool,) if flag else (str, int, float)
    if any(not isinstance(one, kinds) or isinstance(one, bool) != flag for one in values):
        expected = "true or false" if flag else "a text or a number"
        more = ", or a list of them" if several else ""
        raise OptionError(
            f"{CONFIG} sets {key} = {value!r}", remedy=f"Write {expected}{more} after {key} ="
        )
    if several:
        return [str(one) for one in values]
    return value if flag else str(value)
