"""`whyformer explore`: serve a web page to try models and methods."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from whyformer.cli.app import command
from whyformer.cli.arguments import FLAG
from whyformer.cli.console import busy, note, stdout_console
from whyformer.errors import OptionError
from whyformer.models.quiet import silence_transformers


@command(
    "explore",
    heading="Explain",
    examples=(
        "whyformer explore",
        "whyformer explore --port 8000 --no-browser",
        "whyformer explore --model ./my-model --model google/vit-base-patch16-224",
    ),
)
def explore(
    port: Annotated[
        int,
        typer.Option(
            "--port",
            "-p",
            metavar="N",
            min=0,
            max=65535,
            help="The port to listen on; 0 for any free port.",
        ),
    ] = 7861,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen on. By default, only this machine can connect.",
        ),
    ] = "127.0.0.1",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="A folder or Hugging Face id to offer with the bundled models; may be repeated."
            " The page cannot load any other model.",
            show_default=False,
        ),
    ] = None,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser", metavar=FLAG, help="Print the address, but do not open a browser."
        ),
    ] = False,
) -> None:
    """Open a web page to try models and methods on texts and images."""
    from whyformer.explorer.catalogue import catalogue
    from whyformer.explorer.security import is_local
    from whyformer.explorer.server import Explorer, load_first_model

    with busy("loading the models ..."):
        offered = catalogue(model or [])
    silence_transformers()
    try:
        explorer = Explorer(offered, host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OptionError(
            f"cannot listen on {host}, port {port}: {reason}",
            remedy="Choose another --port, or --port 0 for any free port",
        ) from error
    if not is_local(host):
        note(
            f"anybody who can reach {host} can use this explorer and its models: there is no"
            " password"
        )
    with explorer:
        load_first_model(explorer)
        stdout_console().print(
            f"The explorer is at {explorer.url} (Ctrl+C to stop)", soft_wrap=True
        )
        if not no_browser:
            webbrowser.open(explorer.url)
        explorer.serve_forever()
