"""Run a paper's experiment part by part, with the data and models that are present."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whyformer.batching.progress import Progress
from whyformer.errors import InputError, ModelError, OptionError
from whyformer.evaluation.evaluate import COMMAND, RunOptions, run_evaluation
from whyformer.evaluation.plan import MethodSpec, Plan
from whyformer.evaluation.results import Results
from whyformer.evaluation.store import Store
from whyformer.models import bundled
from whyformer.models.load import load_model
from whyformer.registry import nearest
from whyformer.reproduce.experiment import Experiment, ExperimentPart
from whyformer.reproduce.recipes import RECIPES, split_source
from whyformer.reproduce.samples import drop_unknown_labels, select_samples
from whyformer.reproduce.train_recipe import TrainedModel, run_training
from whyformer.workers import EngineOptions


@dataclass(frozen=True)
class Outcome:
    """The result of one part; `missing` gives the reason if it could not be run."""

    part: ExperimentPart
    results: Results | None = None
    accuracy: float | None = None
    model: str = ""
    missing: str = ""
    differences: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class ReproduceOptions:
    """What to run of an experiment, and where its files are."""

    experiment: Experiment
    data: Path
    out: Path
    methods: Sequence[str]
    limit: int | None
    base: Path | None
    train_limit: int | None
    engine: EngineOptions
    command: str | None


@dataclass(frozen=True)
class PartModel:
    """The model of a part: its name or folder, its accuracy, and a remark for the table."""

    source: str
    accuracy: float | None
    note: str


def run_experiment(
    experiment: Experiment,
    data: Path,
    out: Path,
    *,
    parts: Sequence[str] = (),
    methods: Sequence[str] = (),
    limit: int | None = None,
    base: Path | None = None,
    train_limit: int | None = None,
    engine: EngineOptions | None = None,
    command: str | None = None,
) -> Iterator[Progress | Outcome]:
    """Run an experiment part by part.

    Args:
        experiment: One of `EXPERIMENTS`.
        data: The folder with all datasets.
        out: The folder for models and results. Existing results are not computed again.
        parts: The names of the parts to run; all if empty.
        methods: The methods to run, by name or by the paper's label; all if empty.
        limit: The most samples per part; the part's own limit if None.
        base: The folder of the encoder to fine-tune; MiniLM-L6 if None.
        train_limit: The most training samples per model; the recipe's own limit if None.
        engine: Where the evaluation runs, and with how many workers; in this process by default.
        command: The command that started this, to be kept in the folders of the experiment and of
            its parts: `whyformer runs resume` repeats it.

    Yields:
        Progress, and one outcome per part in the experiment's order. A part without data has an
        outcome too.

    Raises:
        InputError: A part or a method is unknown, or `base` is not a model folder.
        OptionError: `limit` or `train_limit` is below 1.
    """
    for name, most in (("limit", limit), ("train_limit", train_limit)):
        if most is not None and most < 1:
            raise OptionError(
                f"{name}={most} leaves no samples", argument=name, remedy="Pass a number from 1"
            )
    if base is not None and not (base / "config.json").is_file():
        raise InputError(
            f"the base {str(base)!r} is not a model folder: it has no config.json",
            argument="base",
            remedy="Pass a folder with config.json, model.safetensors and a tokenizer",
        )
    _check_names("part", parts, [part.name for part in experiment.parts], experiment)
    chosen = [part for part in experiment.parts if not parts or part.name in parts]
    rows = [row for part in chosen for row in part.rows]
    names = [name for row in rows for name in (row.label, row.method)]
    _check_names("method", methods, names, experiment)
    run_on = engine or EngineOptions()
    options = ReproduceOptions(
        experiment, data, out, methods, limit, base, train_limit, run_on, command
    )
    if command is not None:
        facts = {"experiment": experiment.name, "command": command}
        Store(out / experiment.name).write_json(COMMAND, facts)
    for part in chosen:
        yield from _run_part(part, options)


def reproduce(experiment: Experiment, data: Path, out: Path, **options: Any) -> list[Outcome]:
    """Return the outcomes of `run_experiment`, which has the same arguments."""
    events = run_experiment(experiment, data, out, **options)
    return [event for event in events if isinstance(event, Outcome)]


def collect(experiment: Experiment, out: Path, parts: Sequence[str] = ()) -> list[Outcome]:
    """Return the outcomes of the parts that are finished in `out`; run nothing.

    So parts can be run one by one, on several machines or with different limits.

    Raises:
        InputError: A part is unknown, or none is finished.
    """
    _check_names("part", parts, [part.name for part in experiment.parts], experiment)
    chosen = [part for part in experiment.parts if not parts or part.name in parts]
    found = [_read_outcome(part, out / experiment.name / part.name) for part in chosen]
    if not any(one.results for one in found):
        raise InputError(
            f"no part of {experiment.name} is finished in {str(out)!r}",
            argument="out",
            remedy="Run the experiment first",
        )
    return found


def _read_outcome(part: ExperimentPart, folder: Path) -> Outcome:
    """The outcome of a finished part, from its folder."""
    try:
        results = Results.read(folder)
    except InputError:
        return Outcome(part, missing="not finished")  # a published table must not show folders
    settings = results.settings
    return Outcome(
        part,
        results,
        settings.get("accuracy"),
        settings["model"]["name"],
        differences=tuple(settings.get("differences", ())),
    )


def _check_names(
    kind: str, names: Sequence[str], known: Sequence[str], experiment: Experiment
) -> None:
    """Raise InputError if the experiment does not have one of these parts or methods."""
    for name in names:
        if name not in known:
            raise InputError(
                f"{experiment.name} has no {kind} {name!r}.{nearest(name, known)}"
                f" It has: {', '.join(dict.fromkeys(known))}",
                argument=f"{kind}s",
            )


def _run_part(part: ExperimentPart, options: ReproduceOptions) -> Iterator[Progress | Outcome]:
    missing = _missing_data(part, options.data)
    if missing:
        yield Outcome(part, missing=missing)
        return
    title = part.title.split(" (")[0]
    try:
        for event in _evaluate_part(part, options):
            if isinstance(event, Outcome):
                yield event
            else:
                yield replace(event, part=title)
    except (InputError, ModelError) as error:  # the other parts can still run
        yield Outcome(part, missing=str(error))


def _evaluate_part(part: ExperimentPart, options: ReproduceOptions) -> Iterator[Progress | Outcome]:
    for event in _find_model(part, options):
        if isinstance(event, PartModel):
            model = event
        else:
            yield event
    loaded = load_model(model.source, None, None)
    # Only the last part of its path: a published table must not show folders of this machine.
    loaded = replace(loaded, name=Path(model.source).name)
    limit = options.limit or part.limit
    samples, names, left_out = select_samples(part, options.data, limit, loaded)
    rows = _select_rows(part, options.methods)
    differences = tuple(filter(None, (*part.notes, model.note, left_out)))
    facts = {
        "experiment": options.experiment.name,
        "part": part.name,
        "accuracy": model.accuracy,
        "differences": differences,
        **({} if options.command is None else {"command": options.command}),
    }
    events = run_evaluation(
        loaded,
        drop_unknown_labels(samples, loaded),
        Plan(rows, part.measures, part.targets, part.fill, seed=0, truncation=True),
        options.out / options.experiment.name / part.name,
        RunOptions(names, facts, engine=options.engine),
    )
    for step in events:
        if isinstance(step, Results):
            yield Outcome(part, step, model.accuracy, loaded.name, differences=differences)
        else:
            yield step


def _missing_data(part: ExperimentPart, data: Path) -> str:
    """A sentence that lists the folders that do not exist; empty if all do."""
    needed = [split_source(part.data)[1]] if part.data else []
    if part.model in RECIPES:
        needed.append(split_source(RECIPES[part.model].data)[1])
    elif part.model not in bundled.models():
        needed.append(part.model)
    missing = [place for place in needed if not (data / place).exists()]
    return f"the data folder has no {' and no '.join(missing)}" if missing else ""


def _find_model(part: ExperimentPart, options: ReproduceOptions) -> Iterator[Progress | PartModel]:
    """The part's model: bundled, in the data folder, or trained now, with progress before it."""
    known = bundled.models()
    recipe = RECIPES.get(part.model)
    name = recipe.bundled if recipe is not None else part.model
    if name in known:
        yield PartModel(name, known[name].accuracy, f"the bundled model {name}")
    elif recipe is None:
        yield PartModel(str(options.data / part.model), None, "")
    else:
        models = options.out / "models"
        limit = options.train_limit
        for event in run_training(recipe, options.data, models, options.base, limit):
            if isinstance(event, TrainedModel):
                note = recipe.at_most(limit).note
                yield PartModel(str(event.folder), event.accuracy, note)
            else:
                yield event


def _select_rows(part: ExperimentPart, methods: Sequence[str]) -> tuple[MethodSpec, ...]:
    """The rows of the chosen methods; all rows if none are chosen."""
    if not methods:
        return part.rows
    return tuple(row for row in part.rows if row.method in methods or row.label in methods)
