"""`whyformer compare`: one input, several methods side by side."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

import whyformer
from whyformer.attribution import Attribution, views
from whyformer.cli.app import command
from whyformer.cli.arguments import (
    PICTURES,
    Bars,
    Deciding,
    HtmlFile,
    ImageFile,
    InputText,
    JsonFile,
    Model,
    PdfFile,
    PngFile,
    Query,
    Quiet,
    Subwords,
    SvgFile,
    Target,
    Truncation,
    parse_scalar,
    read_target,
)
from whyformer.cli.command_inputs import named, read_command_inputs
from whyformer.cli.console import busy, note, stdout_console
from whyformer.cli.files import check_writable, default_picture, write
from whyformer.compare import HANDFUL, usual
from whyformer.errors import InputError, OptionError, WhyformerError
from whyformer.methods import methods as known
from whyformer.targets.specs import at_query

ALL = "all"


@command(
    "compare",
    heading="Explain",
    examples=(
        'whyformer compare "a gripping, beautifully acted film"',
        "whyformer compare digit.png --methods lrp_ah_ln,gae --png compared.png",
        "whyformer compare --image scene.png 'what colour is the circle?' --png compared.png",
        "whyformer compare review.txt --methods all --html compared.html",
        "whyformer compare review.txt --targets 'positive,positive>negative' --html why.html",
    ),
)
def compare(
    given: InputText = None,
    image: ImageFile = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-M",
            metavar="A,B,...",
            help=f"Methods by name, or [bold]{ALL}[/bold]; see whyformer methods. Default:"
            f" {', '.join(HANDFUL)}.",
            show_default=False,
        ),
    ] = None,
    model: Model = None,
    target: Target = None,
    targets: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,A>B",
            help="Several targets side by side instead of one, each as --target takes it;"
            f" with {HANDFUL[0]} alone unless --methods names others.",
            show_default=False,
        ),
    ] = None,
    query: Query = None,
    deciding: Deciding = None,
    truncation: Truncation = False,
    html: HtmlFile = None,
    png: PngFile = None,
    svg: SvgFile = None,
    pdf: PdfFile = None,
    json: JsonFile = None,
    bars: Bars = False,
    subwords: Subwords = False,
    quiet: Quiet = False,
) -> None:
    """Put several methods, or several targets, side by side on the same input."""
    files = {"--html": html, "--png": png, "--svg": svg, "--pdf": pdf, "--json": json}
    files["--png"] = default_picture(image, files)
    check_writable(files, kept=image)
    wanted = _targets(target, targets)
    names = _method_names(methods or ",".join(usual(len(wanted))))
    question = read_command_inputs(given, image, wanted[0], query)
    asked = [question.target, *(at_query(query, read_target(each)) for each in wanted[1:])]
    attributions: list[Attribution] = []
    skipped: dict[str, str] = {}
    with busy(f"explaining with {len(names)} methods ..."):
        loaded = question.load(model)
        for name, each in product(names, asked):
            try:
                attribution = whyformer.explain(
                    question.inputs,
                    loaded.module,
                    processor=loaded.processor,
                    method=name,
                    target=each,
                    truncation=truncation,
                    deciding=None if deciding is None else parse_scalar(deciding),
                )
            except WhyformerError as error:
                # Who asks for all of them takes what there is; who names one wants that one.
                if methods != ALL:
                    raise
                skipped[name] = str(error)
                continue
            attributions.append(named(attribution, loaded))
    if not attributions:
        raise InputError(f"no method could explain this input: {next(iter(skipped.values()))}")
    for name, reason in skipped.items():
        note(f"left out {name}: {reason}")
    if not quiet:
        shown = views["terminal"].comparison(attributions, bars=bars, subwords=subwords)
        stdout_console().print(shown)
    for option, path in files.items():
        if path is not None:
            name = option.removeprefix("--")
            how = {"subwords": subwords} if name in PICTURES else {}
            content = views[name].render_comparison(attributions, **how)
            data = content if isinstance(content, bytes) else content.encode()
            write(option, path, partial(Path.write_bytes, data=data))


def _method_names(text: str) -> list[str]:
    """The names in order, each known and each once."""
    if text == ALL:
        return list(known)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError("--methods names no method; write for example --methods lrp_ah_ln,gae")
    for name in names:
        known[name]  # an unknown name is refused before the model is loaded
    return names


def _targets(target: str | None, targets: str | None) -> list[str | None]:
    """What was named by --target or --targets, one of them."""
    if targets is None:
        return [target]
    if target is not None:
        raise OptionError("--target and --targets both say what to explain: give one of the two")
    named_targets = [each.strip() for each in targets.split(",")]
    if not all(named_targets):
        raise OptionError(f"--targets {targets!r} has an empty name; write A,B or 'A,B,A>B'")
    return [*named_targets]
