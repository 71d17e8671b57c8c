"""The options that write views to files, such as --html FILE: one per registered view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from whyformer.attribution import View, file_views, write_file
from whyformer.cli.files import write
from whyformer.cli.option_group import OptionGroup

ViewFiles = Mapping[str, Path | None]  # by option, as typed: {"--html": Path("why.html"), ...}
NO_FILES: ViewFiles = MappingProxyType({})


def view_options() -> OptionGroup:
    """Return the options of a command with a parameter `files`: one per view."""
    options = {name: (_annotation(view), None) for name, view in file_views().items()}
    return OptionGroup("files", options, _files)


def _annotation(view: View) -> Any:
    option = typer.Option(
        f"--{view.name}", metavar="FILE", help=f"Write {view.title}.", show_default=False
    )
    return Annotated[Path | None, option]


def _files(paths: Mapping[str, Path | None]) -> ViewFiles:
    return {f"--{name}": path for name, path in paths.items()}


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
