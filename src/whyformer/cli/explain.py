"""`whyformer explain`: explain one input, or every row of a file, with one method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import whyformer
from whyformer.attribution import Attribution
from whyformer.cli.app import command
from whyformer.cli.arguments import (
    AnswerText,
    Bars,
    ChatFile,
    CheckPrecision,
    Deciding,
    Device,
    Dtype,
    Each,
    ImageFile,
    InputText,
    MaxNewTokens,
    Model,
    PairText,
    Query,
    Quiet,
    Seed,
    Strict,
    Subwords,
    Target,
    Truncation,
    parse_scalar,
    read_options,
)
from whyformer.cli.bulk_arguments import (
    BatchSize,
    Column,
    Limit,
    Out,
    SkipErrors,
    Source,
    Split,
    TargetColumn,
)
from whyformer.cli.bulk_explain import BulkJob, explain_rows
from whyformer.cli.command_inputs import read_command_inputs
from whyformer.cli.completion import complete_method
from whyformer.cli.console import busy, note, stdout_console
from whyformer.cli.engine_options import THIS_PROCESS, given_options
from whyformer.cli.files import check_writable, default_picture, write
from whyformer.cli.multi_label import is_multi_label, predicted_labels
from whyformer.cli.target_options import Occurrence, SpanText, TargetOptions, TokenText
from whyformer.cli.view_files import NO_FILES, ViewFiles, write_views
from whyformer.errors import OptionError, WhyformerError
from whyformer.options import DEFAULT_METHOD
from whyformer.render.numbers import chance
from whyformer.render.terminal.text import sample_text
from whyformer.workers import EngineOptions


@command(
    "explain",
    heading="Explain",
    examples=(
        'whyformer explain "a gripping, beautifully acted film"',
        "whyformer explain digit.png --method gae --png why.png",
        "whyformer explain --image scene.png 'what colour is the circle?'",
        "whyformer explain 'who wrote it?' --context passage.txt --span 'Jane Austen'",
        "whyformer explain 'Ada lives in Berlin' --model FOLDER --token Berlin --target B-LOC",
        "whyformer explain --model detr_shapes --image scene.png --query 3 --target 'red circle'",
        "cat review.txt | whyformer explain --html why.html",
        "whyformer explain review.txt --target 'positive>negative'",
        "whyformer explain review.txt --method gae --option gradient=balanced",
        "whyformer explain 'The capital of Germany is' --model FOLDER --max-new-tokens 20",
        "whyformer explain --chat chat.json --model FOLDER --answer ' Berlin'",
        "whyformer explain --input reviews.jsonl --out scores.parquet",
        "whyformer explain --input reviews.jsonl --out scores.parquet --workers 8",
        "whyformer explain --input sst2:PATH --out scores.jsonl --method gae --limit 500",
        "whyformer explain review.txt --bars --subwords",
    ),
)
def explain(
    text: InputText = None,
    image: ImageFile = None,
    pair: PairText = None,
    model: Model = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-M",
            metavar="NAME",
            help="The method; see whyformer methods.",
            autocompletion=complete_method,
        ),
    ] = DEFAULT_METHOD,
    target: Target = None,
    token: TokenText = None,
    span: SpanText = None,
    occurrence: Occurrence = None,
    answer: AnswerText = None,
    chat: ChatFile = None,
    max_new_tokens: MaxNewTokens = None,
    seed: Seed = None,
    each: Each = None,
    query: Query = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="KEY=VALUE",
            help="An option of the method; may be repeated. See whyformer methods NAME.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where to read scores: 'states' (before the first block) or 'embeddings'.",
            show_default=False,
        ),
    ] = None,
    deciding: Deciding = None,
    device: Device = None,
    dtype: Dtype = None,
    truncation: Truncation = False,
    files: ViewFiles = NO_FILES,  # becomes one option per view
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the result for whyformer.load() in Python.",
            show_default=False,
        ),
    ] = None,
    bars: Bars = False,
    subwords: Subwords = False,
    source: Source = None,
    out: Out = None,
    column: Column = None,
    target_column: TargetColumn = None,
    split: Split = None,
    limit: Limit = None,
    batch_size: BatchSize = None,
    skip_errors: SkipErrors = False,
    run_on: EngineOptions = THIS_PROCESS,  # becomes several options
    strict: Strict = False,
    check_precision: CheckPrecision = False,
    quiet: Quiet = False,
) -> None:
    """Show which words or image patches drove a model's prediction."""
    outputs = {**files, "--save": save}
    options = read_options(option or [])
    if at is not None:
        options["at"] = at
    options["deciding"] = None if deciding is None else parse_scalar(deciding)
    checks = {"strict": strict, "check_precision": check_precision}
    options |= {name: True for name, wanted in checks.items() if wanted}
    writing = {"max_new_tokens": max_new_tokens, "seed": seed, "each": each}
    options |= {name: value for name, value in writing.items() if value is not None}
    targets = TargetOptions(query, token, span, occurrence, answer)
    if source is not None:
        _refuse_options(
            {"INPUT": text, "--image": image, "--pair": pair, "--chat": chat or None}
            | {"--query": query, **outputs},
            "is for one input, but --input has many",
            "Leave out one of the two",
        )
        if out is None:
            raise OptionError(
                "--input needs a file for the scores", remedy="Add for example --out scores.parquet"
            )
        explained = targets.read(target)
        if explained is not None and target_column is not None:
            name = "--answer" if answer is not None else "--span" if span else "--target"
            raise OptionError(
                f"{name} and --target-column both name what to explain",
                remedy="Pass only one of them",
            )
        settings = {"method": method, "target": explained, "truncation": truncation}
        explain_rows(
            BulkJob(
                source,
                out,
                model,
                column,
                target_column,
                split,
                limit,
                batch_size,
                skip_errors,
                {**settings, **options},
                device,
                dtype,
                run_on,
            )
        )
        return
    _refuse_options(
        {
            "--out": out,
            "--column": column,
            "--target-column": target_column,
            "--split": split,
            "--limit": limit,
            "--batch-size": batch_size,
            "--skip-errors": skip_errors or None,
            **given_options(run_on),
        },
        "is for many inputs",
        "Add for example --input reviews.jsonl",
    )
    outputs["--png"] = default_picture(image, outputs)
    check_writable(outputs, kept=image)
    command_inputs = read_command_inputs(text, image, target, targets, pair=pair, chat=chat)
    with busy("explaining ...", notes=quiet):
        loaded = command_inputs.load(model, device, dtype)
        attribution = whyformer.explain(
            command_inputs.inputs,
            loaded,
            method=method,
            target=command_inputs.target,
            truncation=truncation,
            **options,
        )
        others = _other_labels(loaded, command_inputs.inputs, attribution, target, truncation)
    if others:
        note(f"also predicted: {', '.join(others)}. To explain all: whyformer compare --predicted")
    if not quiet:
        stdout_console().print(sample_text(attribution, bars=bars, subwords=subwords))
    write_views(outputs, lambda view, taken: view.render(attribution, **taken), subwords=subwords)
    write("--save", save, attribution.save)


def _other_labels(
    loaded: Any, inputs: Any, attribution: Attribution, target: str | None, truncation: bool
) -> list[str]:
    """The labels that a multi-label model predicts beside the explained one, with probabilities."""
    if target is not None or not is_multi_label(loaded):
        return []
    try:
        found = predicted_labels(loaded, inputs, truncation)
    except WhyformerError:  # no label is over 50 %
        return []
    explained = int(attribution.target[0])
    return [f"{name} ({chance(share)})" for index, name, share in found if index != explained]


def _refuse_options(options: Mapping[str, Any], reason: str, remedy: str) -> None:
    """Raise OptionError if one of these options has a value."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"{name} {reason}", remedy=remedy)
