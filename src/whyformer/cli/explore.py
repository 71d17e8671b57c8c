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
        "whyformer explore --data csv:reviews.csv",
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
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="NAME:PATH",
            help="A dataset whose samples the page lists, for example csv:reviews.csv.",
            show_default=False,
        ),
    ] = None,
    public_name: Annotated[
        list[str] | None,
        typer.Option(
            "--public-name",
            metavar="NAME",
            help="A name under which browsers reach the explorer, for example that of a proxy in"
            " front of it; may be repeated.",
            show_default=False,
        ),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="The path under which a proxy shows the explorer, for example /why.",
            show_default=False,
        ),
    ] = "",
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser", metavar=FLAG, help="Print the address, but do not open a browser."
        ),
    ] = False,
) -> None:
    """Open a web page to try models and methods on texts and images."""
    from whyformer.explorer.requirements import check_installed

    check_installed()
    from whyformer.explorer.app import create_app
    from whyformer.explorer.security import is_local
    from whyformer.explorer.serve import ExplorerServer, load_first_model

    with busy("loading the models ..."):
        app = create_app(model or [], data=data, hosts=[host, *(public_name or [])])
    silence_transformers()
    try:
        server = ExplorerServer(
            app, host, port, root_path=root_path, proxied=bool(root_path or public_name)
        )
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
    load_first_model(server.explorer)
    stdout_console().print(f"The explorer is at {server.url} (Ctrl+C to stop)", soft_wrap=True)
    if not no_browser:
        webbrowser.open(server.url)
    server.run()
