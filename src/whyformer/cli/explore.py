"""`whyformer explore`: a web page on this machine, to try models and methods."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from whyformer.cli.app import command
from whyformer.cli.console import busy, note, result
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
            "--port", "-p", metavar="N", min=0, max=65535, help="Where to listen; 0: any free port."
        ),
    ] = 7861,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Who may connect: this machine only, unless another address is given.",
        ),
    ] = "127.0.0.1",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="A folder or a hub id to offer beside the bundled models; may be given more than"
            " once. Nothing else can be loaded from the page.",
            show_default=False,
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address and open nothing.")
    ] = False,
) -> None:
    """Open a web page to try models, texts, images and methods."""
    from whyformer.explorer.catalogue import catalogue
    from whyformer.explorer.guard import is_local
    from whyformer.explorer.server import Explorer, warm

    with busy("loading the models ..."):
        offered = catalogue(model or [])
    silence_transformers()
    try:
        explorer = Explorer(offered, host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OptionError(
            f"cannot listen at {host}, port {port}: {reason}; choose another --port, or --port 0"
            " for any that is free"
        ) from error
    if not is_local(host):
        note(
            f"everybody who can reach {host} can use this explorer, its models and this machine's"
            " time; there is no password"
        )
    with explorer:
        warm(explorer)
        result().print(f"The explorer is at {explorer.url} (Ctrl+C ends it)", soft_wrap=True)
        if not no_browser:
            webbrowser.open(explorer.url)
        explorer.serve_forever()
