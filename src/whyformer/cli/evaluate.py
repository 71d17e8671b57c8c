"""`whyformer evaluate`: measure methods on a dataset, or on the bundled samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import whyformer
from whyformer.batching.progress import Progress
from whyformer.cli.app import command
from whyformer.cli.arguments import (
    Device,
    Dtype,
    Model,
    Quiet,
    SampleLimit,
    SkipRows,
    Split,
    Truncation,
    parse_scalar,
)
from whyformer.cli.console import note, print_written, stdout_console
from whyformer.cli.engine_options import THIS_PROCESS, Threads
from whyformer.cli.error_advice import describe_error
from whyformer.cli.progress import ReportProgress, progress_bar
from whyformer.cli.started_by import this_command
from whyformer.datasets import Dataset, Sample, open_dataset
from whyformer.errors import InputError, ModelError, OptionError, WhyformerError
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.evaluation.default_metrics import default_metrics, no_classes_reason
from whyformer.evaluation.evaluate import (
    REPORT,
    TABLE,
    RunOptions,
    failure_text,
    run_evaluation,
)
from whyformer.evaluation.plan import Plan, method_specs, metric_specs
from whyformer.evaluation.results import Results
from whyformer.evaluation.tables import terminal_tables
from whyformer.inputs.removal import FILL_TEXTS
from whyformer.models import bundled
from whyformer.models.load import load_model
from whyformer.workers import EngineOptions

RUNS = Path("runs")
TARGETS = {"predicted": ("predicted",), "label": ("label",), "both": ("predicted", "label")}


@command(
    "evaluate",
    heading="Measure",
    examples=(
        "whyformer evaluate",
        "whyformer evaluate --model sst2 --data sst2:PATH --metrics auac,au_mse --limit 500",
        "whyformer evaluate --model FOLDER --data csv:my.csv,text=review,label=y --target label",
        "whyformer evaluate --model FOLDER --data pets:PATH --metrics segmentation",
        "whyformer evaluate --data sst2:PATH --metrics auac --set auac.special=remove --fill mask",
        "whyformer evaluate --data sst2:PATH --workers 8 --out s3://bucket/run",
    ),
)
def evaluate_command(
    model: Model = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            metavar="NAME:PATH",
            help="A dataset, its path and options of its reader, as in"
            " csv:my.csv,text=review,label=y. Default: the samples that come with --model, or with"
            " every bundled model.",
            show_default=False,
        ),
    ] = None,
    split: Split = None,
    methods: Annotated[
        str,
        typer.Option(
            "--methods", "-M", metavar="A,B,...", help="Names of methods, or [bold]all[/bold]."
        ),
    ] = "all",
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Names of metrics; see whyformer metrics. Default: all that fit the data.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(metavar="WHICH", help="The class to explain: 'predicted', 'label' or 'both'."),
    ] = "predicted",
    fill: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="What replaces removed tokens (drop, mask, unknown, zero, mean) or pixels (zero,"
            " black, mean, blur). Default: drop for tokens, zero for pixels.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME.KEY=VALUE",
            help="An option of a method or metric, such as gae.start_layer=1 or auac.special=keep;"
            " may be repeated.",
            show_default=False,
        ),
    ] = None,
    limit: SampleLimit = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed for drawing samples and random scores.")
    ] = 0,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Write results to this folder, or to a URL such as s3://bucket/run. Existing"
            " results are not computed again. Default: a folder in runs.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = 1,
    run_on: EngineOptions = THIS_PROCESS,  # becomes several options
    skip: SkipRows = False,
    truncation: Truncation = False,
    device: Device = None,
    dtype: Dtype = None,
    quiet: Quiet = False,
) -> None:
    """Measure how faithful methods are on your model and data."""
    if target not in TARGETS:
        raise OptionError(
            f"--target {target!r} is unknown", remedy=f"Choose one of {', '.join(TARGETS)}"
        )
    method_names = _split_names(methods, "--methods")
    metric_names = _split_names(metrics, "--metrics") if metrics is not None else ()
    options = _parse_settings(settings or [])
    every = data is None and model is None
    refused: list[WhyformerError] = []
    subjects = _subjects(model, data, split, limit, seed, skip)
    for name, samples in subjects:
        place = out or str(RUNS / f"{Path(name).name}-{_source(data)}")
        if out is not None and every:
            place = f"{out}/{name}"
        try:
            with progress_bar() as report:
                loaded = load_model(name, device=device, dtype=dtype)
                found = _evaluate_model(
                    loaded, samples, method_names, metric_names, options, TARGETS[target], fill,
                    seed, place, truncation, data, every, report, threads, run_on,
                )  # fmt: skip
        except KeyboardInterrupt:
            note(f"interrupted: finished samples are kept in {place}. {_resume_text(place)}")
            raise
        except (InputError, ModelError, OptionError) as error:
            # If no model was named, those that fail are left out, unless all fail.
            refused.append(error)
            if not every or len(refused) == len(subjects):
                raise refused[0] from error
            note(f"left out {name}: {describe_error(error)}")
            continue
        if not quiet:
            stdout_console().print(terminal_tables(found))
            for line in _fill_sentences(found):
                stdout_console().print(line, markup=False)
        if found.failures:
            note(failure_text(found))
        for file in (REPORT, TABLE):
            print_written(f"{place}/{file}")


def _evaluate_model(
    loaded: Any,
    samples: Dataset | Sequence[Sample],
    methods: Sequence[str],
    metrics: Sequence[str],
    options: dict[str, dict[str, Any]],
    targets: tuple[str, ...],
    fill: str | None,
    seed: int,
    out: str,
    truncation: bool,
    data: str | None,
    every: bool,
    report: ReportProgress,
    threads: int,
    run_on: EngineOptions,
) -> Results:
    report(Progress("reading samples", 0, 0))
    read = list(samples)
    if not read:
        raise InputError("there are no samples to evaluate on", remedy="Check --split and --limit")
    if every and not metrics:
        reason = no_classes_reason(loaded, read[0])
        if reason:
            raise ModelError(reason)
    if not metrics:
        metrics, why = default_metrics(loaded, read)
        if why:
            note(f"metrics that run the model again are left out: {why}")
    of_metrics = {name: values for name, values in options.items() if name in metrics}
    of_methods = {name: values for name, values in options.items() if name not in metrics}
    plan = Plan(
        method_specs(methods, of_methods, seed),
        metric_specs(metrics, of_metrics, fill),
        targets,
        fill,
        seed,
        truncation,
        threads,
    )
    for event in run_evaluation(
        loaded,
        samples if isinstance(samples, Dataset) else read,
        plan,
        out,
        RunOptions(
            names=samples.labels if isinstance(samples, Dataset) else (),
            facts={"command": this_command(), "data": _facts(samples, data)},
            engine=run_on,
        ),
    ):
        if isinstance(event, Results):
            return event
        report(event)
    raise AssertionError("the evaluation ended without results")


def _resume_text(place: str) -> str:
    return f"To continue, run the same command again, or: whyformer runs resume {place}"


def _subjects(
    model: str | None,
    data: str | None,
    split: str | None,
    limit: int | None,
    seed: int,
    skip: bool,
) -> list[tuple[str, Dataset | list[Sample]]]:
    """Return the models to measure, each with its samples."""
    if limit is not None and limit < 1:
        raise OptionError(f"--limit {limit} leaves no samples", remedy="Pass a whole number from 1")
    if data is not None:
        found = open_dataset(
            data, split, limit=limit, seed=seed, on_error="skip" if skip else "raise"
        )
        return [(model or _default_model(found), found)]
    known = whyformer.models()
    if model is not None and model not in known:
        raise InputError(
            f"--model {model!r} comes without samples",
            remedy="Name a dataset, as in --data sst2:PATH",
        )
    chosen = [known[model]] if model is not None else list(known.values())
    return [(one.name, bundled_samples(one)[:limit]) for one in chosen]


def _default_model(found: Dataset) -> str:
    """Return the bundled model that was trained on this dataset."""
    trained_on = {"sst2": "sst2", "sst_trees": "sst2", "mnist": "mnist"}
    if found.name not in trained_on or trained_on[found.name] not in bundled.models():
        raise InputError(
            f"no bundled model was trained on {found.name}",
            remedy="Name a model with --model FOLDER",
        )
    return trained_on[found.name]


def _split_names(text: str, option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        example = "auac,au_mse" if option == "--metrics" else "blend,gae"
        raise InputError(f"{option} is empty", remedy=f"Write for example {option} {example}")
    return names


def _parse_settings(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return options by the name of their method or metric."""
    found: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        name, dot, rest = pair.partition(".")
        key, equals, value = rest.partition("=")
        if not dot or not equals or not name.strip() or not key.strip():
            raise OptionError(
                f"--set {pair!r} is not of the form name.key=value",
                remedy="Write for example --set gae.start_layer=1",
            )
        found.setdefault(name.strip(), {})[key.strip()] = _parse_value(value.strip())
    return found


def _parse_value(text: str) -> Any:
    """Return a scalar, or a tuple of scalars if the text has commas."""
    if "," in text:
        return tuple(parse_scalar(part.strip()) for part in text.split(",") if part.strip())
    return parse_scalar(text)


def _fill_sentences(found: Results) -> list[str]:
    """Return one sentence per fill: what replaced removed tokens or pixels."""
    fills = {metric.get("fill") for metric in found.settings["metrics"].values()}
    return [
        f"Filled by '{fill}': removed tokens are {FILL_TEXTS[fill]}."
        for fill in FILL_TEXTS
        if fill in fills
    ]


def _source(data: str | None) -> str:
    return "bundled" if data is None else data.partition(":")[0]


def _facts(samples: Dataset | Sequence[Sample], data: str | None) -> dict[str, Any]:
    if not isinstance(samples, Dataset):
        return {"source": "bundled samples"}
    return {"source": data, "split": samples.split, "limit": samples.limit}
