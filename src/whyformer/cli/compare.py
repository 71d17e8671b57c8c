"""`whyformer compare`: explain one input with several methods or targets, side by side."""

from __future__ import annotations

from itertools import product
from typing import Annotated

import typer

from whyformer.cli.app import command
from whyformer.cli.arguments import (
    Bars,
    CheckPrecision,
    Deciding,
    ImageFile,
    InputText,
    Model,
    Query,
    Quiet,
    Strict,
    Subwords,
    Target,
    Truncation,
    parse_scalar,
    read_target,
)
from whyformer.cli.command_inputs import read_command_inputs
from whyformer.cli.console import busy, note, stdout_console
from whyformer.cli.error_advice import describe_error
from whyformer.cli.files import check_writable, default_picture
from whyformer.cli.view_files import NO_FILES, ViewFiles, write_views
from whyformer.compare import DEFAULT_METHODS, default_methods
from whyformer.errors import InputError, OptionError
from whyformer.explain import Ask, explain_each
from whyformer.methods import methods as known
from whyformer.render.comparison import OWN, check_scale
from whyformer.render.terminal.text import comparison_text
from whyformer.targets.specs import at_query

ALL = "all"


@command(
    "compare",
    heading="Explain",
    examples=(
        'whyformer compare "a gripping, beautifully acted film"',
        "whyformer compare digit.png --methods blend,gae --png compared.png",
        "whyformer compare --image scene.png 'what colour is the circle?' --png compared.png",
        "whyformer compare review.txt --methods all --html compared.html",
        "whyformer compare review.txt --targets 'positive,positive>negative' --html why.html",
        "whyformer compare review.txt --targets positive,negative --scale shared",
    ),
)
def compare(
    text: InputText = None,
    image: ImageFile = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-M",
            metavar="A,B,...",
            help=f"Names of methods, or [bold]{ALL}[/bold] for all but slow ones; see whyformer"
            " methods. Default:"
            f" {', '.join(DEFAULT_METHODS)}.",
            show_default=False,
        ),
    ] = None,
    model: Model = None,
    target: Target = None,
    targets: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,A>B",
            help="Compare several targets, each written as for --target. Default method:"
            f" {DEFAULT_METHODS[0]}.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            metavar="own|shared",
            help="Each target or method on its own colour scale, or all on one, so that sizes can"
            " be compared: only for methods whose scores sum to the output.",
        ),
    ] = OWN,
    query: Query = None,
    deciding: Deciding = None,
    truncation: Truncation = False,
    files: ViewFiles = NO_FILES,  # becomes one option per view
    bars: Bars = False,
    subwords: Subwords = False,
    strict: Strict = False,
    check_precision: CheckPrecision = False,
    quiet: Quiet = False,
) -> None:
    """Compare several methods, or several targets, on the same input."""
    outputs = {**files, "--png": default_picture(image, files)}
    check_writable(outputs, kept=image)
    typed = _targets(target, targets)
    names = _method_names(methods or ",".join(default_methods(len(typed))))
    check_scale(scale, [name for name in names if not known[name].promises_sum])
    command_inputs = read_command_inputs(text, image, typed[0], query)
    others = [at_query(query, read_target(each)) for each in typed[1:]]
    with busy(f"explaining with {len(names)} methods ...", notes=quiet):
        answers = list(
            explain_each(
                command_inputs.inputs,
                command_inputs.load(model),
                [Ask(*each) for each in product(names, [command_inputs.target, *others])],
                truncation=truncation,
                deciding=None if deciding is None else parse_scalar(deciding),
                strict=strict,
                check_precision=check_precision,
                # With "all", methods that do not fit are left out; a named method must work.
                on_error="return" if methods == ALL else "raise",
            )
        )
    attributions = [answer.attribution for answer in answers if answer.attribution is not None]
    skipped = {answer.ask.method: answer.error for answer in answers if answer.error is not None}
    if not attributions:
        raise next(iter(skipped.values())).with_prefix("no method could explain this input")
    for name, error in skipped.items():
        note(f"left out {name}: {describe_error(error)}")
    if not quiet:
        shown = comparison_text(attributions, bars=bars, subwords=subwords, scale=scale)
        stdout_console().print(shown)
    write_views(
        outputs,
        lambda view, taken: view.render_comparison(attributions, **taken),
        subwords=subwords,
        scale=scale,
    )


def _method_names(text: str) -> list[str]:
    """Return the names in order, each once; raise UnknownNameError if one is unknown."""
    if text == ALL:
        return [name for name, method in known.items() if method.in_all]
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError(
            "--methods names no method", remedy="Write for example --methods blend,gae"
        )
    for name in names:
        known[name]  # raises, before the model is loaded
    return names


def _targets(target: str | None, targets: str | None) -> list[str | None]:
    """Return the targets as typed, from --target or --targets."""
    if targets is None:
        return [target]
    if target is not None:
        raise OptionError(
            "--target and --targets both name what to explain", remedy="Pass only one of them"
        )
    names = [each.strip() for each in targets.split(",")]
    if not all(names):
        raise OptionError(
            f"--targets {targets!r} has an empty name", remedy="Write A,B or 'A,B,A>B'"
        )
    return [*names]
