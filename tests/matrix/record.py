"""The recorded matrix: what became of every model type, and how to record it anew.

    python -m tests.matrix.record            # all types, two processes, about ten minutes
    python -m tests.matrix.record bert xlm   # only these
    python -m tests.matrix.record --summary  # the counts of what is recorded

`record.json` has one line per model type. The tests compare every type with its line. Recording
writes docs/models.md too, and prints the counts that test_matrix.py asserts (COUNTS).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("record.json")
JOBS = 2
SAVED = 25  # types between two writes
LONGEST = 300  # characters of a refusal
Record = dict[str, Any]


def read_record() -> Record:
    """What is recorded: "transformers", "types" by name and "unbuilt" reasons by name."""
    found: Record = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def write_record(record: Record) -> None:
    """Write the record, one line per type, in order."""
    parts = []
    for part in ("types", "unbuilt"):
        lines = [
            f"{json.dumps(name)}: {json.dumps(line, ensure_ascii=False)}"
            for name, line in sorted(record[part].items())
        ]
        parts.append(f'"{part}": {{\n' + ",\n".join(lines) + "\n}")
    text = f'{{"transformers": {json.dumps(record["transformers"])},\n' + ",\n".join(parts) + "}\n"
    PATH.write_text(text, encoding="utf-8")


def matrix_methods() -> tuple[str, ...]:
    """The methods of the matrix: all that "all methods" has, and the default."""
    import whyformer as wf

    return tuple(name for name, one in wf.methods().items() if not one.slow)


def outcome_of(model_type: str, methods: Sequence[str] | None = None) -> Record | str:
    """A type's line: its class, its facts and its cells; a sentence if it does not run."""
    from tests.matrix.builder import build, reason_against
    from tests.matrix.cells import make_case, run_cell
    from tests.matrix.facts import has_head, plain_output

    reason = reason_against(model_type)
    if reason:
        return reason
    case = make_case(build(model_type))
    cells = {name: run_cell(case, name) for name in methods or matrix_methods()}
    says: dict[str, str] = {}
    for name, cell in cells.items():
        if cell.state != "right":
            says[name] = f"{cell.reason}: {cell.detail}".rstrip(": ")[:LONGEST]
    return {
        "class": type(case.model).__name__,
        "attention": len(case.attended.paths),
        "head": has_head(plain_output(case.model, case.inputs)),
        "answers": case.answers,
        "states": _by_value({name: cell.state for name, cell in cells.items()}),
        "says": _by_value(says),
    }


def _by_value(values: Mapping[str, str]) -> dict[str, list[str]]:
    """The names that have each value."""
    found: dict[str, list[str]] = {}
    for name, value in values.items():
        found.setdefault(value, []).append(name)
    return found


def states_of(line: Record) -> dict[str, str]:
    """The state of each method in a type's line."""
    return {name: state for state, names in line["states"].items() for name in names}


def reasons_of(line: Record) -> dict[str, str]:
    """What was said for each method that is not right in a type's line."""
    return {name: text for text, names in line["says"].items() for name in names}


def summarise(types: Mapping[str, Record]) -> dict[str, Any]:
    """The counts that the project is held to."""
    cells: dict[str, int] = {}
    for line in types.values():
        for state in states_of(line).values():
            cells[state] = cells.get(state, 0) + 1
    attentive = [line for line in types.values() if line["attention"]]
    headed = [line for line in types.values() if line["head"]]
    right = [line for line in attentive if states_of(line).get("auto") == "right"]
    answering = [line for line in headed if line["answers"]]
    return {
        "types": len(types),
        "cells": cells,
        "with attention": len(attentive),
        "right with the default": len(right),
        "with a head": len(headed),
        "answered with nothing else": len(answering),
    }


def _outcome(model_type: str) -> tuple[str, Record | str]:
    """A type with its line, without log messages and in one thread: there are several processes."""
    import torch

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    try:
        return model_type, outcome_of(model_type)
    except Exception as error:  # the matrix itself failed: say so where it is read
        return model_type, f"the matrix fails: {type(error).__name__}: {error}"[:LONGEST]


def record_types(names: Iterable[str]) -> None:
    """Record the types anew; the others stay."""
    import transformers

    record = read_record() if PATH.exists() else {"types": {}, "unbuilt": {}}
    record["transformers"] = transformers.__version__
    with ProcessPoolExecutor(JOBS, mp_context=get_context("spawn")) as pool:
        for count, (name, outcome) in enumerate(pool.map(_outcome, names), 1):
            record["types"].pop(name, None)
            record["unbuilt"].pop(name, None)
            record["unbuilt" if isinstance(outcome, str) else "types"][name] = outcome
            if count % SAVED == 0:  # a run that is stopped loses little
                write_record(record)
                print(f"{count} types, up to {name}", flush=True)
    write_record(record)


def write_page() -> None:
    """Write the table of docs/models.md from the record."""
    from docs.tables import ROOT, page_with_table

    page = "docs/models.md"
    (ROOT / page).write_text(page_with_table(page, "models"), encoding="utf-8")


if __name__ == "__main__":
    from tests.matrix.model_types import model_types

    if sys.argv[1:] != ["--summary"]:
        record_types(sys.argv[1:] or model_types())
        write_page()
    for key, value in summarise(read_record()["types"]).items():
        print(f"{key}: {value}")
