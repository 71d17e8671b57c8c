"""`whyformer runs`: list, show, resume, merge and compare runs of `evaluate` and `reproduce`."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from whyformer.cli.app import command
from whyformer.cli.console import note, stdout_console
from whyformer.cli.started_by import with_options
from whyformer.errors import InputError, OptionError
from whyformer.evaluation.evaluate import COMMAND
from whyformer.evaluation.results import SETTINGS, ResultKey, Results
from whyformer.evaluation.store import PARTS, Store
from whyformer.evaluation.tables import terminal_tables
from whyformer.storage import RunFolder, is_url, open_folder

RUNS = "runs"
ACTIONS = ("list", "show", "resume", "merge", "compare")


@dataclass(frozen=True)
class _Run:
    """What is known about a run without computing anything."""

    place: str
    settings: dict[str, Any]
    shards: int

    @property
    def state(self) -> str:
        if not self.settings:
            return "not finished"
        failed = len(self.settings.get("failures", ()))
        return f"finished, {failed} samples failed" if failed else "finished"


@command(
    "runs",
    heading="Measure",
    examples=(
        "whyformer runs list",
        "whyformer runs show runs/sst2-bundled",
        "whyformer runs resume runs/sst2-bundled --workers 8",
        "whyformer runs resume runs/reproduce/ali2022",
        "whyformer runs merge runs/one runs/other --out runs/both",
        "whyformer runs compare runs/one runs/other",
    ),
)
def runs_command(
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help=f"One of {', '.join(ACTIONS)}.")
    ] = "list",
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...",
            help="Folders or URLs of runs. For list: the folder that holds them, by default runs.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="For merge: the folder of the new run."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="For resume: how many workers.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="For resume: local or ray.")
    ] = None,
) -> None:
    """List runs, show or resume one, merge their finished units, or compare two."""
    if action not in ACTIONS:
        raise OptionError(
            f"runs {action!r} is unknown", remedy=f"Choose one of {', '.join(ACTIONS)}"
        )
    given = places or []
    if out is not None and action != "merge":
        raise OptionError("--out is for runs merge", remedy="Leave it out")
    if (workers is not None or engine is not None) and action != "resume":
        raise OptionError("--workers and --engine are for runs resume", remedy="Leave them out")
    if action == "list":
        _list(_exactly(given or [RUNS], 1, action)[0])
    elif action == "show":
        _show(_exactly(given, 1, action)[0])
    elif action == "resume":
        _resume(_exactly(given, 1, action)[0], workers, engine)
    elif action == "compare":
        _compare(*_exactly(given, 2, action))
    else:
        _merge(given, out)


def _exactly(places: list[str], count: int, action: str) -> list[str]:
    if len(places) != count:
        raise OptionError(
            f"runs {action} takes {count} run{'s' * (count > 1)}, and {len(places)} were named",
            remedy=f"Write whyformer runs {action}" + " RUN" * count,
        )
    return places


def _read(place: str) -> _Run:
    """What is known about a run; raise InputError if the place is none."""
    folder = open_folder(place, create=False)
    settings = _json(folder, SETTINGS)
    shards = len(folder.names(PARTS))
    started = _json(folder, COMMAND)
    holds_runs = "experiment" in started and "part" not in started  # of `reproduce`
    if not settings and not shards and (not started or holds_runs):
        raise InputError(
            f"{place!r} is not a run of whyformer evaluate: it has no {SETTINGS} and no {PARTS}",
            remedy="See whyformer runs list",
        )
    return _Run(place, settings, shards)


def _json(folder: RunFolder, name: str) -> dict[str, Any]:
    try:
        found = json.loads(folder.read(name).decode("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _list(place: str) -> None:
    found = []
    for name in _sub_folders(place):
        try:
            found.append(_read(name))
        except InputError:
            continue
    if not found:
        note(f"there are no runs in {place}")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("run", "model", "samples", "methods", "parts", "state"):
        table.add_column(heading)
    for run in found:
        settings = run.settings
        cells = (
            run.place,
            settings.get("model", {}).get("name", ""),
            settings.get("data", {}).get("samples", ""),
            len(settings.get("methods", ())) or "",
            run.shards,
            run.state,
        )
        table.add_row(*(Text(str(cell)) for cell in cells))
    stdout_console().print(table)


def _sub_folders(place: str) -> list[str]:
    """The folders directly in a place."""
    if is_url(place):
        import fsspec

        system, path = fsspec.core.url_to_fs(place)
        protocol = place.partition("://")[0]
        entries = system.ls(path, detail=True)
        return [f"{protocol}://{one['name']}" for one in entries if one["type"] == "directory"]
    folder = Path(place).expanduser()
    return sorted(str(one) for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []


def _show(place: str) -> None:
    run = _read(place)
    store = Store(place)
    console = stdout_console()
    started = _json(store.folder, COMMAND).get("command", "")
    lines = [f"{place}: {run.state}", f"{len(store.done)} finished units in {run.shards} parts"]
    lines += [f"started by: {started}"] if started else []
    lines += [f"does not count: {damage}" for damage in store.damage]
    for failure in run.settings.get("failures", ()):
        lines.append(f"failed: {failure['sample']}: {failure['error']}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    if run.settings:
        console.print(terminal_tables(Results.read(place)))


def _resume(place: str, workers: int | None, engine: str | None) -> None:
    """Run the command that began the run once more; it continues where it stopped."""
    facts = _json(open_folder(place, create=False), COMMAND) or _read(place).settings
    started = facts.get("command")
    words = shlex.split(started) if isinstance(started, str) else []
    if words[:2] not in (["whyformer", "evaluate"], ["whyformer", "reproduce"]):
        raise InputError(
            f"{place!r} does not say how it was started",
            remedy="Run the command that began it again: it continues where it stopped",
        )
    options = _place_options(place, facts) if words[1] == "reproduce" else {"--out": place}
    options |= {"--workers": str(workers)} if workers is not None else {}
    options |= {"--engine": engine} if engine is not None else {}
    arguments = with_options(words[1:], options)
    note(f"resuming: whyformer {shlex.join(arguments)}")
    from whyformer.cli.app import application

    application()(arguments, standalone_mode=False)


def _place_options(place: str, facts: dict[str, Any]) -> dict[str, str]:
    """The options of `reproduce` for the folder of an experiment, or of one of its parts."""
    folder = Path(place).expanduser().absolute()
    part = facts.get("part")
    if not part:
        return {"--out": str(folder.parent)}
    return {"--out": str(folder.parent.parent), "--parts": part}


def _merge(places: list[str], out: str | None) -> None:
    """Copy the finished units of several runs into one folder, each once."""
    if len(places) < 2 or out is None:
        raise OptionError(
            "runs merge takes at least two runs and --out",
            remedy="Write whyformer runs merge RUN RUN --out FOLDER",
        )
    for place in places:
        _read(place)
    target = Store(out)
    for place in places:
        source = Store(place)
        before = len(target.done)
        target.add(list(source.done.values()))
        added = len(target.done) - before
        note(f"{place}: {added} units added, {len(source.done) - added} were there already")
        for damage in source.damage:
            note(f"{place}: {damage} does not count")
    note(
        f"{out} has {len(target.done)} finished units. Run whyformer evaluate with --out {out} to"
        " make its tables: units that are there are not computed again"
    )


def _compare(one: str, other: str) -> None:
    """Print the means of two finished runs side by side."""
    first, second = Results.read(one), Results.read(other)
    console = stdout_console()
    for name, before, after in _differences(first.settings, second.settings):
        console.print(f"{name}: {before} / {after}", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("method", "target", "metric", one, other, "difference", "samples"):
        table.add_column(Text(heading))
    shared = [cell for cell in first.cells if cell in second.cells]
    for cell in shared:
        table.add_row(*(Text(text) for text in _cell_texts(cell, first, second)))
    console.print(table if shared else Text("The two runs have no method and metric in common."))


def _differences(first: Any, second: Any) -> list[tuple[str, Any, Any]]:
    """The settings in which two runs differ: names, values before and after."""
    pairs = [
        ("model", first["model"]["fingerprint"], second["model"]["fingerprint"]),
        ("fill", first.get("fill"), second.get("fill")),
        ("seed", first.get("seed"), second.get("seed")),
        *(
            (f"version of {name}", first["versions"].get(name), second["versions"].get(name))
            for name in first["versions"]
        ),
    ]
    return [pair for pair in pairs if pair[1] != pair[2]]


def _cell_texts(cell: ResultKey, first: Results, second: Results) -> tuple[str, ...]:
    values = [{row["sample"]: row["value"] for row in run.cells[cell]} for run in (first, second)]
    both = [name for name in values[0] if name in values[1]]
    means = [sum(v[name] for name in both) / len(both) if both else float("nan") for v in values]
    change = means[1] - means[0]
    same = all(values[0][name] == values[1][name] for name in both)
    return (
        cell.method,
        cell.target,
        cell.metric,
        f"{means[0]:.4f}",
        f"{means[1]:.4f}",
        "identical" if same else f"{change:+.2e}" if abs(change) < 1e-4 else f"{change:+.4f}",
        str(len(both)),
    )
