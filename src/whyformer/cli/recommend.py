"""`whyformer recommend`: which method explains a model best, measured on your data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from whyformer.cli.app import command
from whyformer.cli.arguments import Device, Dtype, Model, Quiet, SkipRows, Split, Truncation
from whyformer.cli.bulk_explain import READERS
from whyformer.cli.console import stdout_console
from whyformer.cli.engine_options import THIS_PROCESS, Threads
from whyformer.cli.files import check_writable, write
from whyformer.cli.progress import show_progress
from whyformer.datasets import open_dataset
from whyformer.errors import InputError
from whyformer.recommend.run import RecommendOptions, run_recommend
from whyformer.recommend.samples import MOST
from whyformer.recommend.views import terminal
from whyformer.workers import EngineOptions

DEFAULT_MODEL = "sst2"  # if neither a model nor data are named

OutputFile = Path | None


def _file(help_text: str) -> Any:
    return typer.Option(metavar="FILE", help=help_text, show_default=False)


@command(
    "recommend",
    heading="Measure",
    examples=(
        "whyformer recommend",
        "whyformer recommend --model FOLDER --data csv:my.csv,text=review --png methods.png",
        "whyformer recommend --data sst2:PATH --limit 200 --seconds 60 --html methods.html",
        "whyformer recommend --data sst2:PATH --workers 4",
        "whyformer recommend --data sst2:PATH --methods 'gae,gae(gradient=balanced),attn_lrp'",
    ),
)
def recommend_command(
    model: Model = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            metavar="NAME:PATH",
            help="A dataset and its path, as in csv:my.csv,text=review, or a .csv, .jsonl or"
            " .parquet file. Labels are not needed. Default: the samples that come with --model.",
            show_default=False,
        ),
    ] = None,
    split: Split = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-M",
            metavar="A,B,...",
            help="Names of methods, with options as in 'gae(start_layer=1)'. Default: all that"
            " are not slow.",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="The metrics that decide. Default: auac and deletion, and those that masks or"
            " marked words in the data allow.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="N", help="Stop after this time, with what is known then.")
    ] = 100.0,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            help=f"Use at most N samples, drawn at random. Default: {MOST}.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed for drawing samples and random scores.")
    ] = 0,
    fill: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="What replaces removed tokens or pixels; see whyformer evaluate --help.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[OutputFile, _file("Write a web page.")] = None,
    png: Annotated[OutputFile, _file("Write the chart as a picture.")] = None,
    svg: Annotated[OutputFile, _file("Write the chart as a vector graphic.")] = None,
    json: Annotated[OutputFile, _file("Write all numbers.")] = None,
    threads: Threads = 1,
    run_on: EngineOptions = THIS_PROCESS,  # becomes several options
    skip: SkipRows = False,
    truncation: Truncation = False,
    device: Device = None,
    dtype: Dtype = None,
    quiet: Quiet = False,
) -> None:
    """Find the method that explains your model best, on your data, in a minute or two."""
    files = {"--html": html, "--png": png, "--svg": svg, "--json": json}
    check_writable(files)
    options = RecommendOptions(
        methods=None if methods is None else _split_names(methods, "--methods"),
        metrics=None if metrics is None else _split_names(metrics, "--metrics"),
        seconds=seconds,
        samples=limit,
        seed=seed,
        fill=fill,
        truncation=truncation,
        engine=replace(run_on, threads=threads),
        device=device,
        dtype=dtype,
    )
    samples = None if data is None else _open(data, split, limit, seed, skip)
    chosen = DEFAULT_MODEL if model is None and data is None else model
    found = show_progress(run_recommend(chosen, samples, options))
    if not quiet:
        stdout_console().print(terminal(found))
    write("--html", html, found.to_html)
    write("--png", png, found.to_png)
    write("--svg", svg, found.to_svg)
    write("--json", json, found.to_json)


def _open(data: str, split: str | None, limit: int | None, seed: int, skip: bool) -> Any:
    """Return the dataset; a file is opened by its suffix."""
    path = Path(data).expanduser()
    if path.suffix.lower() in READERS and ":" not in data:
        data = f"{READERS[path.suffix.lower()]}:{path}"
    return open_dataset(
        data,
        split,
        limit=MOST if limit is None or limit < 1 else limit,
        seed=seed,
        on_error="skip" if skip else "raise",
    )


def _split_names(text: str, option: str) -> list[str]:
    """Return the names between commas; a comma within brackets is between options."""
    names, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            names.append("")
        else:
            names[-1] += letter
    found = [name.strip() for name in names if name.strip()]
    if not found:
        raise InputError(f"{option} is empty", remedy=f"Write for example {option} auac,deletion")
    return found
