"""The options that write views to files, such as --html FILE: one per registered view."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from whyformer.attribution import View, file_views, write_file
from whyformer.cli.files import write

ViewFiles = Mapping[str, Path | None]  # by option, as typed: {"--html": Path("why.html"), ...}
NO_FILES: ViewFiles = MappingProxyType({})
PARAMETER = "files"  # of a command that takes them


def add_view_options(run: Callable[..., None]) -> Callable[..., None]:
    """Return the command with one option per view in place of its parameter `files`.

    The command gets the paths as `ViewFiles`. A command without that parameter is returned
    unchanged.
    """
    signature = inspect.signature(run, eval_str=True)
    if PARAMETER not in signature.parameters:
        return run
    views = file_views()

    @functools.wraps(run)
    def with_files(**values: Any) -> None:
        paths = {f"--{name}": values.pop(name) for name in views}
        run(**values, **{PARAMETER: paths})

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == PARAMETER:
            parameters += [_option(view) for view in views.values()]
        else:
            parameters.append(parameter)
    with_files.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_files.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_files


def _option(view: View) -> inspect.Parameter:
    option = typer.Option(
        f"--{view.name}", metavar="FILE", help=f"Write {view.title}.", show_default=False
    )
    return inspect.Parameter(
        view.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[Path | None, option],
    )


def write_views(
    files: ViewFiles,
    render: Callable[[View, dict[str, Any]], str | bytes],
    **options: Any,
) -> None:
    """Write every view that has a path.

    Args:
        files: Paths by option.
        render: Returns the content of a view, given the options that this view takes.
        **options: Options such as `subwords`; a view gets only those that it takes.
    """
    for view in file_views().values():
        option = f"--{view.name}"
        path = files.get(option)
        if path is not None:
            known = (*view.options, *view.comparison_options)
            taken = {key: value for key, value in options.items() if key in known}
            write(option, path, partial(write_file, render(view, taken)))
