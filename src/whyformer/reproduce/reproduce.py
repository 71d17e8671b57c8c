"""One experiment with what is present: models made where none is, then evaluated part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whyformer import bundled
from whyformer.datasets import Sample, open_dataset
from whyformer.errors import InputError
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.evaluation.evaluate import evaluate
from whyformer.evaluation.plan import Plan
from whyformer.evaluation.results import Results
from whyformer.inputs.models import Loaded, load_model
from whyformer.reproduce.experiments import Experiment, Part
from whyformer.reproduce.recipes import RECIPES
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
    known = [part.name for part in experiment.parts]
    for name in parts:
        if name not in known:
            raise InputError(f"{experiment.name} has no part {name!r}; it has {', '.join(known)}")
    chosen = [part for part in experiment.parts if not parts or part.name in parts]
    return [_done(part, data, out, experiment, methods, limit, base, tell) for part in chosen]


def _done(
    part: Part,
    data: Path,
    out: Path,
    experiment: Experiment,
    methods: Sequence[str],
    limit: int | None,
    base: Path | None,
    tell: Told | None,
) -> Outcome:
    absent = _absent(part, data)
    if absent:
        return Outcome(part, missing=absent)

    def say(doing: str, done: int, total: int) -> None:
        if tell is not None:
            tell(f"{part.title.split(' (')[0]}: {doing}", done, total)

    folder, accuracy, note = _model(part, data, out, base, say)
    loaded = load_model(folder, None, None)
    samples, names = _samples(part, data, limit or part.limit)
    rows = tuple(r for r in part.rows if not methods or r.method in methods or r.label in methods)
    plan = Plan(rows, part.measures, part.targets, part.fill, seed=0, truncation=True)
    results = evaluate(
        _named(loaded, folder),
        samples,
        plan,
        out / experiment.name / part.name,
        names=names,
        facts={"experiment": experiment.name, "part": part.name},
        tell=say,
    )
    differences = tuple(filter(None, (*part.notes, note)))
    return Outcome(part, results, accuracy, Path(folder).name, differences=differences)


def _absent(part: Part, data: Path) -> str:
    """Which folder is not there, in words; nothing where all is."""
    needed = []
    if part.model in RECIPES:
        needed = [RECIPES[part.model].data]
    elif part.model not in bundled.models():
        needed = [f":{part.model}"]
    if part.data:
        needed.append(part.data)
    for source in needed:
        place = source.partition(":")[2].partition(",")[0]
        if not (data / place).exists():
            return f"there is no {place} in the folder of data"
    return ""


def _model(
    part: Part, data: Path, out: Path, base: Path | None, say: Told
) -> tuple[str, float | None, str]:
    """The name or folder of the part's model, its accuracy, and what to know about it."""
    known = bundled.models()
    recipe = RECIPES.get(part.model)
    name = recipe.bundled if recipe is not None else part.model
    if name in known:
        return name, known[name].accuracy, f"the bundled model {name}"
    if recipe is None:
        return str(data / part.model), None, ""
    made = trained(recipe, data, out / "models", base, say)
    return str(made.folder), made.accuracy, recipe.note


def _named(loaded: Loaded, folder: str) -> Loaded:
    """The model under the last part of its path: a table says no more of the machine."""
    return Loaded(loaded.module, loaded.processor, Path(folder).name)


def _samples(part: Part, data: Path, limit: int | None) -> tuple[list[Sample], Sequence[str]]:
    """The samples that say something, and the names of their labels."""
    if part.data:
        name, _, place = part.data.partition(":")
        place, comma, option = place.partition(",")
        key, _, value = option.partition("=")  # of a file that lies beside
        source = f"{name}:{data / place}" + (f",{key}={data / place / value}" if comma else "")
        found = open_dataset(source, part.split, limit=limit, seed=0, on_error="skip")
    elif part.model in RECIPES:
        found = RECIPES[part.model].open(data, "test", limit)
    else:
        return bundled_samples(bundled.models()[part.model])[:limit], ()
    # An empty tweet says nothing that could be explained.
    return [sample for sample in found if sample.inputs != ""], found.labels
