"""What is published: the wheel and sdist, their description, and the version in every place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import whyformer as wf
from docs.wheel_readme import describe_wheel

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SENTENCE = "a gripping, beautifully acted film"


def targets(text: str) -> list[str]:
    """Return where the links and images of a Markdown text lead."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert wf.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_without_an_address_nothing_relative_is_left() -> None:
    assert any("://" not in target for target in targets(README))
    text = describe_wheel(README, "")
    assert all("://" in target or target.startswith("#") for target in targets(text))
    assert "![" not in text
    assert "<!--" not in text
    assert "pip install whyformer" in text


def test_with_an_address_links_lead_to_the_repository() -> None:
    text = describe_wheel(
        "[a](docs/a.md) ![b](c.png) [d](https://d.org) [e](#f)", "https://x.org/w/"
    )
    assert text == (
        "[a](https://x.org/w/blob/main/docs/a.md) ![b](https://x.org/w/raw/main/c.png)"
        " [d](https://d.org) [e](#f)"
    )
    assert all(
        "://" in t or t.startswith("#") for t in targets(describe_wheel(README, "https://x"))
    )


def run(*command: object, cwd: Path) -> str:
    """Run a command without the variables of this process; return what it printed."""
    known = ("PATH", "HOME", "LANG", "TMPDIR")
    environment = {name: os.environ[name] for name in known if name in os.environ}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**environment, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    return folder


@pytest.mark.slow
def test_the_wheel_is_small_and_complete(dist: Path) -> None:
    wheel = next(dist.glob("*.whl"))
    assert wheel.stat().st_size < 30e6
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        head = Parser().parsestr(archive.read(metadata).decode())
    package = ROOT / "src" / "whyformer"
    wanted = {
        f"whyformer/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= set(names)
    assert not [name for name in names if not name.startswith("whyformer")]
    assert head["Version"] == wf.__version__
    assert head["Description-Content-Type"] == "text/markdown"
    address = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["address"]
    assert head.get_payload().strip() == describe_wheel(README, address).strip()


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(dist: Path, tmp_path: Path) -> None:
    """Own sentence, image, model and CSV, each in one command, away from the repository."""
    place = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=tmp_path)
    python = place / "bin" / "python"
    own = Path(
        run(
            python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path
        ).strip()
    )
    # pip is not needed to unpack a wheel. What it depends on is that of this environment; a plain
    # path line does not process the .pth files there, so the repository is not importable.
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        archive.extractall(own)
    (own / "shared.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    script = "import whyformer as wf; print(wf.__file__, wf.__version__, *wf.models())"
    file, version, *models = run(python, "-c", script, cwd=tmp_path).split()
    assert Path(file).is_relative_to(own)
    assert version == wf.__version__
    assert set(models) == set(wf.models())

    whyformer = (python, "-m", "whyformer")
    assert "positive" in run(*whyformer, "explain", SENTENCE, cwd=tmp_path)
    digit = own / "whyformer" / "models" / "bundled" / "mnist" / "samples"
    run(*whyformer, "explain", "--image", sorted(digit.glob("*.png"))[0], cwd=tmp_path)
    assert (tmp_path / "why.png").is_file()
    (tmp_path / "my.csv").write_text("review\nwarm and clever\na chore\n", encoding="utf-8")
    model = own / "whyformer" / "models" / "bundled" / "sst2"
    run(
        *whyformer, "explain", "--model", model, "--input", "csv:my.csv,text=review",
        "--out", "scores.parquet", "--quiet", cwd=tmp_path,
    )  # fmt: skip
    assert (tmp_path / "scores.parquet").is_file()
