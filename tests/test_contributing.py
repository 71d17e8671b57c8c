"""The worked examples of CONTRIBUTING.md: one file each, and they appear in every list."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from whyformer.attribution import views
from whyformer.datasets import datasets
from whyformer.methods import methods
from whyformer.metrics import metrics
from whyformer.models.families import families
from whyformer.registry import Registry

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^`(src/whyformer/[\w/]+)/(\w+)\.py`:\n\n```py\n(.*?)^```$", re.M | re.S)
# The registry that each heading of the guide is about, and the name of its example.
EXAMPLES: dict[str, tuple[Registry[Any], str]] = {
    "method": (methods, "absolute_gradient"),
    "family": (families, "luke"),
    "metric": (metrics, "top_share"),
    "dataset": (datasets, "labelled_lines"),
    "view": (views, "tsv"),
}

# Runs in a process whose registries also scan the examples' folders. Every step is recorded by
# itself, so that one that fails does not hide the others.
PROGRAM = '''
import contextlib, importlib, io, json, sys, traceback
from pathlib import Path

root, folder, folders = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
sys.path.insert(0, str(root))
import whyformer as wf
for package in folders:
    importlib.import_module(package).__path__.append(str(folder / package))

def command(*arguments):
    """What `whyformer ...` prints, and how it ends."""
    from whyformer.cli import main
    sys.argv = ["whyformer", *arguments]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
    return f"{printed.getvalue()}\\nended with {code or 0}"

def explorer_page():
    from whyformer.explorer.catalogue import catalogue
    from whyformer.explorer.limits import Limits
    from whyformer.explorer.page import page
    return page(catalogue(), Limits()).decode()

def tables():
    from docs import tables
    return {f"{page} {name}": make() for (page, name), make in tables.TABLES.items()}

def explained_family():
    family = wf.families()["luke"]
    a = wf.explain({"input_ids": [[5, 9, 7], [5, 8]]}, family.tiny(), target=1)
    return a.provenance["family"]

def rendered():
    return wf.explain("a gripping film").render("tsv")

data = folder / "data"
data.mkdir()
(data / "test.txt").write_text("positive: a gripping film\\nnegative: a chore\\n")
steps = {
    "wf.methods": lambda: list(wf.methods()),
    "wf.metrics": lambda: list(wf.metrics()),
    "wf.families": lambda: list(wf.families()),
    "datasets": lambda: list(importlib.import_module("whyformer.datasets").datasets),
    "views": lambda: list(importlib.import_module("whyformer.attribution").views),
    "explained by family": explained_family,
    "rendered": rendered,
    "explorer": explorer_page,
    "tables": tables,
    "cli methods": lambda: command("methods"),
    "cli metrics": lambda: command("metrics"),
    "cli explain": lambda: command(
        "explain", "a gripping film", "--method", "absolute_gradient", "--tsv",
        str(folder / "why.tsv")),
    "cli explain help": lambda: command("explain", "--help"),
    "cli evaluate": lambda: command(
        "evaluate", "--model", "sst2", "--data", f"labelled_lines:{data}", "--methods",
        "absolute_gradient,random", "--metrics", "top_share", "--out", str(folder / "run")),
    "evaluated": lambda: (folder / "run" / "table.md").read_text(),
    "written": lambda: (folder / "why.tsv").read_text(),
}
found = {}
for name, step in steps.items():
    try:
        found[name] = step()
    except BaseException:
        found[name] = traceback.format_exc()
print(json.dumps(found), file=sys.__stdout__)
'''


def test_the_guide_has_an_example_of_each_in_the_folder_that_its_registry_scans() -> None:
    found = {name: place for place, name, _ in EXAMPLE.findall(GUIDE)}
    wanted = {
        name: "src/" + registry.package.replace(".", "/") for registry, name in EXAMPLES.values()
    }
    assert found == wanted


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every list of a process says in which the examples are there."""
    folder = tmp_path_factory.mktemp("contributed")
    texts = {name: text for _, name, text in EXAMPLE.findall(GUIDE)}
    for registry, name in EXAMPLES.values():
        place = folder / registry.package
        place.mkdir()
        (place / f"{name}.py").write_text(texts[name], encoding="utf-8")
    packages = json.dumps([registry.package for registry, _ in EXAMPLES.values()])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT), str(folder), packages],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize(
    ("listing", "name"),
    [
        ("wf.methods", "absolute_gradient"),
        ("wf.metrics", "top_share"),
        ("wf.families", "luke"),
        ("datasets", "labelled_lines"),
        ("views", "tsv"),
    ],
)
def test_listing_functions(found: dict[str, Any], listing: str, name: str) -> None:
    assert name in found[listing]


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("README.md methods", "absolute_gradient"),
        ("docs/methods.md methods", "absolute_gradient"),
        ("docs/families.md families", "luke"),
        ("docs/evaluation.md metrics", "top_share"),
        ("docs/evaluation.md datasets", "labelled_lines"),
        ("docs/pictures.md views", "tsv"),
    ],
)
def test_docs_tables(found: dict[str, Any], table: str, name: str) -> None:
    assert f"`{name}`" in found["tables"][table]


def test_command_line_lists(found: dict[str, Any]) -> None:
    assert "absolute_gradient" in found["cli methods"]
    assert "top_share" in found["cli metrics"]


def test_command_line_evaluates_with_them(found: dict[str, Any]) -> None:
    assert found["cli evaluate"].endswith("ended with 0"), found["cli evaluate"]
    assert "absolute_gradient" in found["evaluated"]
    assert "top_share" in found["evaluated"]


def test_command_line_has_an_option_for_the_view(found: dict[str, Any]) -> None:
    assert "--tsv" in found["cli explain help"]
    assert found["cli explain"].endswith("ended with 0"), found["cli explain"]
    assert "\t'gripping'\t" in found["written"]


def test_the_explorer_offers_the_method(found: dict[str, Any]) -> None:
    assert "absolute_gradient" in found["explorer"]


def test_the_explorer_offers_the_view_as_a_download(found: dict[str, Any]) -> None:
    assert "tsv" in found["explorer"].lower()


def test_explain_knows_the_family(found: dict[str, Any]) -> None:
    assert found["explained by family"] == "luke"


def test_an_attribution_renders_the_view(found: dict[str, Any]) -> None:
    assert "\t'gripping'\t" in found["rendered"]
