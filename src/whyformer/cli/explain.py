"""`whyformer explain`: one input, one method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import whyformer
from whyformer.attribution import views
from whyformer.cli.app import command
from whyformer.cli.arguments import (
    Deciding,
    Given,
    HtmlFile,
    JsonFile,
    Model,
    PngFile,
    Quiet,
    Target,
    Truncation,
    read_input,
    read_options,
    read_target,
    scalar,
)
from whyformer.cli.console import busy, result
from whyformer.cli.files import check_writable, write


@command(
    "explain",
    heading="Explain",
    examples=(
        'whyformer explain "a gripping, beautifully acted film"',
        "whyformer explain digit.png --method gae --png why.png",
        "cat review.txt | whyformer explain --html why.html",
        "whyformer explain review.txt --target 'positive>negative'",
        "whyformer explain review.txt --option activations=identity",
    ),
)
def explain(
    given: Given = None,
    model: Model = None,
    method: Annotated[
        str, typer.Option("--method", "-M", metavar="NAME", help="See whyformer methods.")
    ] = "lrp_ah_ln",
    target: Target = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="KEY=VALUE",
            help="An option of the method; may be given more than once.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where scores are read: 'states' (into the first block) or 'embeddings'.",
            show_default=False,
        ),
    ] = None,
    deciding: Deciding = None,
    truncation: Truncation = False,
    html: HtmlFile = None,
    png: PngFile = None,
    json: JsonFile = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save everything, for whyformer.load().", show_default=False
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Show which words or patches made a model say what it says."""
    check_writable({"--html": html, "--png": png, "--json": json, "--save": save})
    options = read_options(option or [])
    if at is not None:
        options["at"] = at
    wanted, inputs = read_target(target), read_input(given)
    with busy("explaining ..."):
        attribution = whyformer.explain(
            inputs,
            model,
            method=method,
            target=wanted,
            truncation=truncation,
            deciding=None if deciding is None else scalar(deciding),
            **options,
        )
    if not quiet:
        result().print(views["terminal"].renderable(attribution))
    write("--html", html, attribution.to_html)
    write("--png", png, attribution.to_png)
    write("--json", json, attribution.to_json)
    write("--save", save, attribution.save)
