"""Imports point one way: every edge between the package's parts is in a table."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import whyformer

PACKAGE = Path(whyformer.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# The house, from the ground up: a part may import those before it and no others ...
CHAIN = (
    "errors",
    "registry",
    "options",
    "image_files",
    "attribution",
    "models",
    "inputs",
    "targets",
    "batching",
    "engine",
    "methods",
    "pipeline",
    "explain",
    "compare",
    "evaluation",
    "recommend",
    "reproduce",
)
_BELOW = {part: frozenset(CHAIN[:i]) for i, part in enumerate(CHAIN)}
# ... and leaves, which anything above `attribution` may import and which import little themselves.
LEAVES: dict[str, frozenset[str]] = {
    "datasets": frozenset({"errors", "registry", "image_files"}),
    "maximum_flow": frozenset(),
    "statistics": frozenset({"errors"}),
    "render": frozenset({"errors", "registry", "image_files", "attribution"}),
    "storage": frozenset({"errors"}),
    "workers": frozenset({"errors"}),
}
_MEASURED = _BELOW["evaluation"] | LEAVES.keys() | {"metrics"}

ALLOWED: dict[str, frozenset[str]] = {
    **_BELOW,
    **LEAVES,
    # Inputs in any number come from datasets.
    "batching": _BELOW["batching"] | {"datasets"},
    "methods": _BELOW["methods"] | {"maximum_flow"},
    # A probe of the precision compares ranks.
    "pipeline": _BELOW["pipeline"] | {"statistics"},
    "explain": _BELOW["explain"] | {"datasets", "render"},
    "compare": _BELOW["compare"] | {"render"},
    # Metrics run the model again on inputs with tokens removed.
    "metrics": _BELOW["methods"] | {"statistics"},
    "evaluation": _MEASURED,
    "audit": _MEASURED | {"evaluation"},
    "evaluate": _MEASURED | {"evaluation"},
    # Interfaces of other libraries.
    "captum": _BELOW["compare"],
    "pipelines": _BELOW["compare"],
    "quantus": _BELOW["compare"],
    "recommend": _MEASURED | {"evaluation"},
    "reproduce": _MEASURED | {"evaluation"},
    "explorer": _MEASURED | {"whyformer", "evaluation"},
    "summarize": _MEASURED | {"evaluation", "audit"},
    "cli": _MEASURED
    | {"whyformer", "evaluation", "recommend", "reproduce", "audit", "summarize", "explorer"},
    "__main__": frozenset({"cli"}),
    # The public door gathers names, so it may reach for all of them.
    "__init__": _MEASURED | {"evaluation", "evaluate", "audit", "recommend", "summarize"},
}

BANNED = {"torchvision", "timm", "pickle", "dill", "joblib"}
# Lean parts name the third-party packages they live on.
LEAN = {
    "errors": set(),
    "registry": set(),
    "options": set(),
    "attribution": {"torch", "safetensors", "numpy"},  # numpy for the arrays of shap
    "engine": {"torch"},
}


def part_of(file: Path) -> str:
    """The part a file belongs to: 'engine' for engine/forward.py, 'explain' for explain.py."""
    relative = file.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported(file: Path) -> Iterator[tuple[str, int]]:
    """(dotted module, line) of every import statement of a file, relative ones made absolute.

    `from whyformer import x` is the module x where there is one and the package's face otherwise.
    """
    here = ["whyformer", *file.relative_to(PACKAGE).with_suffix("").parts]
    package = here[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            if module != "whyformer":
                yield module, node.lineno
                continue
            for alias in node.names:
                known = (PACKAGE / alias.name).is_dir() or (PACKAGE / f"{alias.name}.py").is_file()
                yield f"whyformer.{alias.name}" if known else "whyformer", node.lineno


def wrong_edges(file: Path) -> list[str]:
    """What a file imports and may not, one line each."""
    part = part_of(file)
    wrong = []
    for module, line in imported(file):
        top, _, rest = module.partition(".")
        if top == "whyformer":
            other = rest.partition(".")[0] or "whyformer"
            if other != part and other not in ALLOWED.get(part, frozenset()):
                wrong.append(f"line {line}: {part} may not import {other}")
        elif top in BANNED:
            wrong.append(f"line {line}: nothing may import {top}")
        elif part in LEAN and top not in sys.stdlib_module_names and top not in LEAN[part]:
            wrong.append(f"line {line}: {part} may not import {top}")
    return wrong


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_point_one_way(file: Path) -> None:
    assert part_of(file) in ALLOWED, f"{part_of(file)} is new: give it a line in ALLOWED"
    assert not wrong_edges(file)


def test_the_table_has_no_way_back() -> None:
    for part, below in ALLOWED.items():
        for other in below & ALLOWED.keys():
            assert part not in ALLOWED[other], f"{part} and {other} may import each other"


@pytest.mark.parametrize(
    ("place", "text", "found"),
    [
        ("engine/x.py", "from whyformer.methods import gae", "engine may not import methods"),
        ("inputs/x.py", "from ..engine.scope import x", "inputs may not import engine"),
        ("render/x.py", "import whyformer.explain", "render may not import explain"),
        ("render/x.py", "from whyformer import explain", "render may not import explain"),
        ("methods/x.py", "from whyformer import contrast", "methods may not import whyformer"),
        ("engine/x.py", "def f():\n    import numpy", "engine may not import numpy"),
        ("cli/x.py", "import pickle", "nothing may import pickle"),
        ("methods/x.py", "from ..engine import y\nfrom . import z", None),
        ("cli/x.py", "import whyformer as wf", None),
    ],
)
def test_the_check_can_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, text: str, found: str | None
) -> None:
    for part in ("engine", "methods"):
        (tmp_path / part).mkdir()
    (tmp_path / "explain.py").touch()
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    wrong = wrong_edges(file)
    assert (found in wrong[0]) if found else not wrong


def test_every_package_that_is_imported_is_declared() -> None:
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    # What a user can have: not what only developers install.
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *(extras[name] for name in ("data", "ray", "s3", "explore"))]
    declared = {re.split(r"[<>=\[]", needed)[0] for group in groups for needed in group}
    known_as = {"PIL": "pillow", "huggingface_hub": "huggingface-hub"}
    for file in FILES:
        tops = {module.partition(".")[0] for module, _ in imported(file)}
        others = tops - set(sys.stdlib_module_names) - {"whyformer"}
        assert {known_as.get(top, top) for top in others} <= declared, file


HEAVY = ("transformers", "matplotlib", "jinja2", "typer", "pandas", "torchvision")


@pytest.mark.parametrize(
    "statement",
    [
        "import whyformer",
        "import whyformer as wf; wf.methods(), wf.metrics(), wf.families(), wf.models()",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(statement: str) -> None:
    # torch itself imports jinja2 and the like in some versions: only what we add counts.
    script = (
        "import json, sys, torch; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({m.partition('.')[0] for m in set(sys.modules) - before})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert not set(json.loads(done.stdout)) & set(HEAVY)


def test_the_package_is_imported_without_torch() -> None:
    script = (
        "import sys, whyformer; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_a_submodule_does_not_hide_the_function_of_its_name() -> None:
    script = (
        "import whyformer.explain, whyformer.compare, whyformer.recommend, whyformer.methods.gae\n"
        "import whyformer as wf\n"
        "assert all(callable(getattr(wf, name)) for name in wf.__all__ if name != 'errors')\n"
        "assert wf.methods() and wf.models()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
