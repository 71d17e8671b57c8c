"""The docs site builds without a warning, asks for nothing from the network, and has every page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site_hooks import math_to_markup

ROOT = Path(__file__).parent.parent
FETCHED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]+")


def test_formulas_become_mathml() -> None:
    text = math_to_markup("The sum $\\sum_i x_i$ is\n\n$$\\frac{a}{b}$$\n\nand costs $5.")
    assert text.count("<math") == 2
    assert 'display="block"' in text
    assert "costs $5." in text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors: broken links and anchors are warnings."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


@pytest.mark.slow
def test_every_page_is_there(site: Path) -> None:
    docs = ROOT / "docs"
    wanted = {path.relative_to(docs).with_suffix(".html") for path in docs.rglob("*.md")}
    assert wanted <= {path.relative_to(site) for path in site.rglob("*.html")}


@pytest.mark.slow
def test_nothing_is_fetched_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not FETCHED.findall(page.read_text(encoding="utf-8")), page.name
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(encoding="utf-8"), style.name


@pytest.mark.slow
def test_references_are_filled(site: Path) -> None:
    api = (site / "api.html").read_text(encoding="utf-8")
    for name in ("explain", "compare", "Attribution", "WhyformerError"):
        assert name in api
    assert "--max-new-tokens" in (site / "cli.html").read_text(encoding="utf-8")
    assert "<math" in (site / "methods" / "gae.html").read_text(encoding="utf-8")
