"""What README and docs show runs, what they link to exists, and their tables cannot rot."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples import demo

import whyformer as wf
from docs import tables
from whyformer.cli import main
from whyformer.models.families import families

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(page: Path) -> Iterator[tuple[str, str, int]]:
    """(language, text, first line) of every fenced block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield match[1], match[2], text.count("\n", 0, match.start(2))


def run_console(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing; every `$ whyformer ...` line has run and every `$ make ...` names a target."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    for line in re.findall(r"^\$ (.*)$", text, re.M):
        command, *arguments = shlex.split(line, comments=True)
        if command == "make":
            assert set(arguments) <= set(targets), f"{line!r} names no target of the Makefile"
        elif command == "whyformer":
            monkeypatch.setattr(sys, "argv", [command, *arguments])
            try:
                code = main()
            except SystemExit as ended:
                code = ended.code
            assert not code, f"{line!r} ended with {code}"
        else:
            assert command in {"pip", "git", "cd"}, f"{line!r} is nothing that this test can run"


def test_readme_shows_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = next(text for kind, text, _ in blocks(ROOT / "README.md") if "why positive?" in text)
    line = re.findall(r"^\$ whyformer (.*)$", readme, re.M)[0]
    monkeypatch.setattr(sys, "argv", ["whyformer", *shlex.split(line)])
    with pytest.raises(SystemExit):
        main()
    shown, printed = (
        {word: float(score) for word, score in re.findall(r"(\S+?)\(([+-]\d+\.\d+)\)", text)}
        for text in (readme, capsys.readouterr().out)
    )
    assert len(shown) > 5
    assert shown == pytest.approx(printed, abs=0.02)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # What the command lines of a page ask about.
    shutil.copy(wf.models()["lxmert_shapes"].folder / "samples" / "scene1.png", "scene.png")
    Path("reviews.txt").write_text("warm and clever\na chore\n", encoding="utf-8")
    # A family that a page declares is forgotten afterwards.
    monkeypatch.setattr(families, "_entries", dict(families.items()))
    names: dict[str, Any] = {"__name__": page.stem}
    for language, text, line in blocks(page):
        if language == "python":
            # Padded, so that a traceback shows the page's own line number.
            exec(compile("\n" * line + text, str(page), "exec"), names)
        elif language == "console":
            run_console(text, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))  # code has brackets of its own
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose)
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize(("page", "name"), tables.TABLES)
def test_tables_are_up_to_date(page: str, name: str) -> None:
    now = (ROOT / page).read_text(encoding="utf-8")
    assert now == tables.page_with_table(page, name), "run `make docs`"


def test_every_method_has_a_page_that_says_how_it_works_and_when_it_is_wrong() -> None:
    pages = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs/methods").glob("*.md")}
    assert pages.keys() == wf.methods().keys()
    for name, text in pages.items():
        for heading in ("How it works", "When it is wrong"):
            section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
            assert len(section.split()) > 5, f"docs/methods/{name}.md: {heading!r} is empty"


def test_docs_give_a_reason_for_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {re.split(r"[<>=\[]", needed)[0] for group in groups for needed in group}
    wanted.discard("whyformer")  # `dev` names the other extras
    rows = re.findall(
        r"^\| `([\w-]+)` \| [^|]+ \| [^|]+ \| [^|]+ \|$",
        (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8"),
        re.M,
    )
    assert sorted(rows) == sorted(wanted)


@pytest.mark.slow
def test_the_demo_writes_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    written = sorted(path.name for path in tmp_path.iterdir())
    able = {model.task for model in wf.models().values()}
    names = {"why", "digit"} | {name for task, (name, *_) in demo.TASKS.items() if task in able}
    assert "question" in names
    pages = {f"{name}.{kind}" for name in names for kind in ("html", "png")} | {"classes.html"}
    assert written == sorted(pages)
    assert all(name in done.stdout for name in written)
    for path in tmp_path.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
