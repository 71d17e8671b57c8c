"""`whyformer evaluate`: methods measured on a dataset, or on what comes with the package."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import whyformer
from whyformer.cli.app import command
from whyformer.cli.arguments import Model, Quiet, Truncation, scalar
from whyformer.cli.console import aside, note, result
from whyformer.cli.progress import Told, watched
from whyformer.datasets import Dataset, Sample, open_dataset
from whyformer.errors import InputError, ModelError, OptionError, WhyformerError
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.evaluation.evaluate import REPORT, TABLE, evaluate
from whyformer.evaluation.fitting import answers_otherwise, fitting
from whyformer.evaluation.plan import Plan, contenders, measures
from whyformer.evaluation.results import Results
from whyformer.evaluation.tables import terminal
from whyformer.inputs.removal import FILL_TEXTS
from whyformer.models import bundled
from whyformer.models.load import load_model

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
            help="A dataset and where it lies; options of its reader stand behind, as in"
            " csv:my.csv,text=review,label=y. Default: the bundled samples of the model, or of"
            " every bundled model.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which part of the data.", show_default=False)
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            "--methods", "-M", metavar="A,B,...", help="Methods by name, or [bold]all[/bold]."
        ),
    ] = "all",
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Metrics by name; see whyformer metrics. Default: all that fit the data.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str, typer.Option(metavar="WHICH", help="Explain the class 'predicted', 'label' or 'both'.")
    ] = "predicted",
    fill: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="What fills the place of removed tokens: drop, mask, unknown, zero, mean; of"
            " pixels: zero, black, mean, blur. Default: drop and zero.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME.KEY=VALUE",
            help="An option of a method or metric, such as gae.start_layer=1 or auac.special=keep;"
            " may be given more than once.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="At most so many samples, drawn.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws samples and random scores.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Where results go; what is there already is not computed again. Default: a folder"
            " in runs.",
            show_default=False,
        ),
    ] = None,
    skip: Annotated[
        bool, typer.Option("--skip-errors", help="Leave out rows that cannot be read.")
    ] = False,
    truncation: Truncation = False,
    quiet: Quiet = False,
) -> None:
    """Measure how faithful methods are, on your model and data."""
    if target not in TARGETS:
        raise OptionError(f"--target {target!r}: choose one of {', '.join(TARGETS)}")
    chosen = _names(methods, "--methods")
    named = _names(metrics, "--metrics") if metrics is not None else ()
    options = _settings(settings or [])
    every = data is None and model is None
    refused: list[WhyformerError] = []
    subjects = _subjects(model, data, split, limit, seed, skip)
    for name, samples in subjects:
        place = out or RUNS / f"{Path(name).name}-{_source(data)}"
        if out is not None and every:
            place = out / name
        try:
            with watched() as tell:
                loaded = load_model(name)
                found = _evaluated(
                    loaded, samples, chosen, named, options, TARGETS[target], fill, seed, place,
                    truncation, data, every, tell,
                )  # fmt: skip
        except (InputError, ModelError, OptionError) as error:
            # Where nobody named a model, those that cannot do it are left out, unless none can.
            refused.append(error)
            if not every or len(refused) == len(subjects):
                raise refused[0] from error
            note(f"left out {name}: {error}")
            continue
        if not quiet:
            result().print(terminal(found))
            for line in _filled(found):
                result().print(line, markup=False)
        for file in (REPORT, TABLE):
            aside().print(f"wrote {place / file}", soft_wrap=True, markup=False)


def _evaluated(
    loaded: Any,
    samples: Dataset | Sequence[Sample],
    methods: Sequence[str],
    metrics: Sequence[str],
    options: dict[str, dict[str, Any]],
    targets: tuple[str, ...],
    fill: str | None,
    seed: int,
    out: Path,
    truncation: bool,
    data: str | None,
    every: bool,
    tell: Told,
) -> Results:
    tell("reading samples", 0, 0)
    read = list(samples)
    if not read:
        raise InputError("there are no samples to evaluate on; check --split and --limit")
    if every and not metrics:
        other = answers_otherwise(loaded, read[0])
        if other:
            raise ModelError(other)
    if not metrics:
        metrics, why = fitting(loaded, read)
        if why:
            note(f"metrics that run the model again are left out: {why}")
    known = {name: chosen for name, chosen in options.items() if name in metrics}
    rest = {name: chosen for name, chosen in options.items() if name not in known}
    plan = Plan(
        contenders(methods, rest, seed),
        measures(metrics, known, fill),
        targets,
        fill,
        seed,
        truncation,
    )
    return evaluate(
        loaded,
        samples if isinstance(samples, Dataset) else read,
        plan,
        out,
        names=samples.labels if isinstance(samples, Dataset) else (),
        facts={"command": _command(), "data": _facts(samples, data)},
        tell=tell,
    )


def _subjects(
    model: str | None,
    data: str | None,
    split: str | None,
    limit: int | None,
    seed: int,
    skip: bool,
) -> list[tuple[str, Dataset | list[Sample]]]:
    """The models to be measured, each with its samples."""
    if limit is not None and limit < 1:
        raise OptionError(f"--limit {limit}: give a whole number from 1")
    if data is not None:
        found = open_dataset(
            data, split, limit=limit, seed=seed, on_error="skip" if skip else "raise"
        )
        return [(model or _default(found), found)]
    known = whyformer.models()
    if model is not None and model not in known:
        raise InputError(
            f"--model {model!r} comes without samples: name a dataset, as in --data sst2:PATH"
        )
    chosen = [known[model]] if model is not None else list(known.values())
    return [(one.name, bundled_samples(one)[:limit]) for one in chosen]


def _default(found: Dataset) -> str:
    """The bundled model that fits the dataset's kind."""
    fits = {"sst2": "sst2", "sst_trees": "sst2", "mnist": "mnist"}
    if found.name not in fits or fits[found.name] not in bundled.models():
        raise InputError(
            f"no bundled model was trained for {found.name}: name yours with --model FOLDER"
        )
    return fits[found.name]


def _names(text: str, option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError(f"{option} names nothing; write for example {option} auac,au_mse")
    return names


def _settings(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Options by the name of their method or metric."""
    found: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        name, dot, rest = pair.partition(".")
        key, equals, value = rest.partition("=")
        if not dot or not equals or not name.strip() or not key.strip():
            raise OptionError(
                f"--set {pair!r} is not of the form name.key=value, such as gae.start_layer=1"
            )
        found.setdefault(name.strip(), {})[key.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    """A number, a word, or several of them with commas between."""
    if "," in text:
        return tuple(scalar(part.strip()) for part in text.split(",") if part.strip())
    return scalar(text)


def _filled(found: Results) -> list[str]:
    """How what was taken away was filled, a sentence each; none where nothing was."""
    known = found.settings["metrics"].values()
    said = {metric["convention"].rpartition("filled: ")[2] for metric in known}
    return [
        f"Filled by '{fill}': what is taken away is {FILL_TEXTS[fill]}."
        for fill in FILL_TEXTS
        if fill in said
    ]


def _source(data: str | None) -> str:
    return "bundled" if data is None else data.partition(":")[0]


def _facts(samples: Dataset | Sequence[Sample], data: str | None) -> dict[str, Any]:
    if not isinstance(samples, Dataset):
        return {"source": "bundled samples"}
    return {"source": data, "split": samples.split, "limit": samples.limit}


def _command() -> str:
    return shlex.join(["whyformer", *sys.argv[1:]])
