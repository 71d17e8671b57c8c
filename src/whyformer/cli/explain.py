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
    ImageFile,
    JsonFile,
    Model,
    PngFile,
    Query,
    Quiet,
    Target,
    Truncation,
    read_options,
    scalar,
)
from whyformer.cli.console import busy, result
from whyformer.cli.files import check_writable, default_picture, write
from whyformer.cli.question import named, read_question


@command(
    "explain",
    heading="Explain",
    examples=(
        'whyformer explain "a gripping, beautifully acted film"',
        "whyformer explain digit.png --method gae --png why.png",
        "whyformer explain --image scene.png 'what colour is the circle?'",
        "whyformer explain --model detr_shapes --image scene.png --query 3 --target 'red circle'",
        "cat review.txt | whyformer explain --html why.html",
        "whyformer explain review.txt --target 'positive>negative'",
        "whyformer explain review.txt --option activations=identity",
    ),
)
def explain(
    given: Given = None,
    image: ImageFile = None,
    model: Model = None,
    method: Annotated[
        str, typer.Option("--method", "-M", metavar="NAME", help="See whyformer methods.")
    ] = "lrp_ah_ln",
    target: Target = None,
    query: Query = None,
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
    files = {"--html": html, "--png": png, "--json": json, "--save": save}
    files["--png"] = default_picture(image, files)
    check_writable(files, kept=image)
    options = read_options(option or [])
    if at is not None:
        options["at"] = at
    question = read_question(given, image, target, query)
    with busy("explaining ..."):
        loaded = question.load(model)
        attribution = whyformer.explain(
            question.inputs,
            loaded.module,
            processor=loaded.processor,
            method=method,
            target=question.target,
            truncation=truncation,
            deciding=None if deciding is None else scalar(deciding),
            **options,
        )
        attribution = named(attribution, loaded)
    if not quiet:
        result().print(views["terminal"].renderable(attribution))
    for name, writer in (
        ("--html", attribution.to_html),
        ("--png", attribution.to_png),
        ("--json", attribution.to_json),
        ("--save", attribution.save),
    ):
        write(name, files[name], writer)
