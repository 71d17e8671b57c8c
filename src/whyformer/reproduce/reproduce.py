"""One experiment with what is present: models made where none is, then evaluated part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whyformer.errors import InputError, ModelError, OptionError
from whyformer.evaluation.evaluate import evaluate
from whyformer.evaluation.plan import Contender, Plan
from whyformer.evaluation.results import Results
from whyformer.models import bundled
from whyformer.models.load import Loaded, load_model
from whyformer.registry import nearest
from whyformer.reproduce.experiments import Experiment, Part
from whyformer.reproduce.recipes import RECIPES, parted
from whyformer.reproduce.selection import selected, understood
from whyformer.reproduce.training import trained

Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What one part came to; `missing` says why where it could not be done."""

    part: Part
    results: Results | None = None
    accuracy: float | None = None
    model: str = ""
    missing: str = ""
    differences: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Asked:
    """What the user wants of an experiment, and where its files are."""

    experiment: Experiment
    data: Path
    out: Path
    methods: Sequence[str]
    limit: int | None
    base: Path | None
    tell: Told | None


def reproduce(
    experiment: Experiment,
    data: Path,
    out: Path,
    *,
    parts: Sequence[str] = (),
    methods: Sequence[str] = (),
    limit: int | None = None,
    base: Path | None = None,
    tell: Told | None = None,
) -> list[Outcome]:
    """The outcome of every part, or of those named; what lacks its data is listed, not left out."""
    if limit is not None and limit < 1:
        raise OptionError(f"limit={limit} leaves no sample; give a whole number from 1")
    if base is not None and not (base / "config.json").is_file():
        raise InputError(f"the base {str(base)!r} is no folder of a model: it has no config.json")
    _check("part", parts, [part.name for part in experiment.parts], experiment)
    chosen = [part for part in experiment.parts if not parts or part.name in parts]
    rows = [row for part in chosen for row in part.rows]
    _check("method", methods, [n for row in rows for n in (row.label, row.method)], experiment)
    asked = Asked(experiment, data, out, methods, limit, base, tell)
    return [_done(part, asked) for part in chosen]


def _check(kind: str, named: Sequence[str], known: Sequence[str], experiment: Experiment) -> None:
    """Nothing; a name that the experiment does not have is an error, before any work is done."""
    for name in named:
        if name not in known:
            raise InputError(
                f"{experiment.name} has no {kind} {name!r}.{nearest(name, known)}"
                f" It has: {', '.join(dict.fromkeys(known))}."
            )


def _done(part: Part, asked: Asked) -> Outcome:
    absent = _absent(part, asked.data)
    if absent:
        return Outcome(part, missing=absent)
    try:
        return _measured(part, asked)
    except (InputError, ModelError) as error:  # the other parts need not wait for this one
        return Outcome(part, missing=str(error))


def _measured(part: Part, asked: Asked) -> Outcome:
    def say(doing: str, done: int, total: int) -> None:
        if asked.tell is not None:
            asked.tell(f"{part.title.split(' (')[0]}: {doing}", done, total)

    folder, accuracy, note = _model(part, asked, say)
    loaded = load_model(folder)
    # Under the last part of its path: a table says no more of the machine.
    loaded = Loaded(loaded.module, loaded.processor, Path(folder).name)
    samples, names, left_out = selected(part, asked.data, asked.limit or part.limit)
    rows = _rows(part, asked.methods)
    results = evaluate(
        loaded,
        understood(samples, loaded),
        Plan(rows, part.measures, part.targets, part.fill, seed=0, truncation=True),
        asked.out / asked.experiment.name / part.name,
        names=names,
        facts={"experiment": asked.experiment.name, "part": part.name},
        tell=say,
    )
    differences = tuple(filter(None, (*part.notes, note, left_out)))
    return Outcome(part, results, accuracy, loaded.name, differences=differences)


def _absent(part: Part, data: Path) -> str:
    """Which folders are not there, in words; nothing where all are."""
    needed = [parted(part.data)[1]] if part.data else []
    if part.model in RECIPES:
        needed.append(parted(RECIPES[part.model].data)[1])
    elif part.model not in bundled.models():
        needed.append(part.model)
    gone = [place for place in needed if not (data / place).exists()]
    return f"there is no {' and no '.join(gone)} in the folder of data" if gone else ""


def _model(part: Part, asked: Asked, say: Told) -> tuple[str, float | None, str]:
    """The name or folder of the part's model, its accuracy, and what to know about it."""
    known = bundled.models()
    recipe = RECIPES.get(part.model)
    name = recipe.bundled if recipe is not None else part.model
    if name in known:
        return name, known[name].accuracy, f"the bundled model {name}"
    if recipe is None:
        return str(asked.data / part.model), None, ""
    made = trained(recipe, asked.data, asked.out / "models", asked.base, say)
    return str(made.folder), made.accuracy, recipe.note


def _rows(part: Part, methods: Sequence[str]) -> tuple[Contender, ...]:
    """The rows that are asked for; without any wish, all."""
    if not methods:
        return part.rows
    return tuple(r for r in part.rows if r.method in methods or r.label in methods)
