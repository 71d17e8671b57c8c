"""`whyformer compare`: explain one input with several methods or targets, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from whyformer.attribution import Attribution
from whyformer.batching.progress import report_step
from whyformer.cli.app import command
from whyformer.cli.arguments import (
    FLAG,
    Bars,
    CheckPrecision,
    Deciding,
    Device,
    Dtype,
    ImageFile,
    InputText,
    PairText,
    Query,
    Quiet,
    Strict,
    Subwords,
    Truncation,
    parse_scalar,
)
from whyformer.cli.command_inputs import read_command_inputs
from whyformer.cli.completion import complete_method, complete_model
from whyformer.cli.console import busy, note, stdout_console
from whyformer.cli.error_advice import describe_error
from whyformer.cli.files import check_writable, default_picture
from whyformer.cli.multi_label import predicted_labels
from whyformer.cli.target_options import Occurrence, SpanText, TargetOptions, TokenText
from whyformer.cli.view_files import NO_FILES, ViewFiles, write_views
from whyformer.compare import DEFAULT_METHODS, default_methods
from whyformer.errors import InputError, OptionError
from whyformer.methods import methods as known
from whyformer.pipeline.explain_each import Answer, Ask, explain_each
from whyformer.render.comparison import OWN, check_scale, same_inputs
from whyformer.render.terminal.text import comparison_text, sample_text

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
        "whyformer compare review.txt --model FOLDER --model OTHER --methods libragrad",
        "whyformer compare comment.txt --model FOLDER --predicted",
    ),
)
def compare(
    text: InputText = None,
    image: ImageFile = None,
    pair: PairText = None,
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
            autocompletion=complete_method,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="A bundled model, a folder, or a Hugging Face id; repeat it to compare models."
            " Default: a bundled model that fits the input.",
            show_default=False,
            autocompletion=complete_model,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="WHAT",
            help="What to explain, as in whyformer explain; repeat it to compare targets.",
            show_default=False,
        ),
    ] = None,
    targets: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,A>B",
            help="Compare several targets, each written as for --target. Default method:"
            f" {DEFAULT_METHODS[0]}.",
            show_default=False,
        ),
    ] = None,
    predicted: Annotated[
        bool,
        typer.Option(
            "--predicted",
            metavar=FLAG,
            help="Multi-label models: compare all labels with a probability over 50 %.",
        ),
    ] = False,
    token: TokenText = None,
    span: SpanText = None,
    occurrence: Occurrence = None,
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
    device: Device = None,
    dtype: Dtype = None,
    truncation: Truncation = False,
    files: ViewFiles = NO_FILES,  # becomes one option per view
    bars: Bars = False,
    subwords: Subwords = False,
    strict: Strict = False,
    check_precision: CheckPrecision = False,
    quiet: Quiet = False,
) -> None:
    """Compare several methods, targets or models on the same input."""
    outputs = {**files, "--png": default_picture(image, files)}
    check_writable(outputs, kept=image)
    typed = _targets(target, targets, predicted)
    models: list[str | None] = list(dict.fromkeys(model)) if model else [None]
    several = len(typed) > 1 or len(models) > 1 or predicted
    names = _method_names(methods or ",".join(default_methods(2 if several else 1)))
    check_scale(scale, [name for name in names if not known[name].promises_sum])
    options = TargetOptions(query, token, span, occurrence)
    command_inputs = read_command_inputs(text, image, typed[0], options, pair=pair)
    wanted = [command_inputs.target, *(options.read(each) for each in typed[1:])]
    answers: list[Answer] = []
    with busy("explaining ...", notes=quiet):
        for number, one in enumerate(models):
            loaded = command_inputs.load(one, device, dtype)
            if predicted:
                found = predicted_labels(loaded, command_inputs.inputs, truncation)
                wanted = [index for index, _, _ in found]
            asks = [Ask(*each) for each in product(names, wanted)]
            done, total = number * len(asks), len(models) * len(asks)
            for answer in explain_each(
                command_inputs.inputs,
                loaded,
                asks,
                truncation=truncation,
                deciding=None if deciding is None else parse_scalar(deciding),
                strict=strict,
                check_precision=check_precision,
                # With "all", methods that do not fit are left out; a named method must work.
                on_error="return" if methods == ALL else "raise",
            ):
                answers.append(answer)
                done += 1
                report_step(f"explained with {answer.ask.method}", done, total)
    attributions = [answer.attribution for answer in answers if answer.attribution is not None]
    skipped = {answer.ask.method: answer.error for answer in answers if answer.error is not None}
    if not attributions:
        raise next(iter(skipped.values())).with_prefix("no method could explain this input")
    for name, error in skipped.items():
        note(f"left out {name}: {describe_error(error)}")
    if not quiet:
        stdout_console().print(_comparison(attributions, bars, subwords, scale))
    write_views(
        outputs,
        lambda view, taken: view.render_comparison(attributions, **taken),
        subwords=subwords,
        scale=scale,
    )


def _comparison(
    attributions: Sequence[Attribution], bars: bool, subwords: bool, scale: str
) -> RenderableType:
    """The attributions side by side; below each other if the models have different tokens."""
    if same_inputs(attributions):
        return comparison_text(attributions, bars=bars, subwords=subwords, scale=scale)
    return Group(*(sample_text(one, bars=bars, subwords=subwords) for one in attributions))


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


def _targets(target: list[str] | None, targets: str | None, predicted: bool) -> list[str | None]:
    """Return the targets as typed, from --target or --targets."""
    given = {"--target": target or None, "--targets": targets, "--predicted": predicted or None}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise OptionError(
            f"{named[0]} and {named[1]} both name what to explain", remedy="Pass only one of them"
        )
    if targets is None:
        return [*target] if target else [None]
    names = [each.strip() for each in targets.split(",")]
    if not all(names):
        raise OptionError(
            f"--targets {targets!r} has an empty name", remedy="Write A,B or 'A,B,A>B'"
        )
    return [*names]
