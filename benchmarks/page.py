"""Write benchmarks/results/*.json into docs/benchmarks.md, and draw its plots.

    python benchmarks/page.py [--results DIR] [--page FILE]

The text between `<!-- name -->` and `<!-- /name -->` is replaced from name.json: the command, the
machine, tables and plots. Sections without a file stay as they are. Exits with 1 if a benchmark
exceeded a limit.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sections import RENDER, Results

ROOT = Path(__file__).parent.parent


def section(name: str, found: Results, images: Path) -> str:
    """The text of the page for one file of results."""
    run = found["run"]
    where = (
        f"{run['date']}, {run['processor']}, {run['cores']} cores, load {run['load']} at the end;"
        f" torch {run['torch']}, transformers {run['transformers']}."
    )
    over = "\n".join(f"- Over the limit: {line}" for line in found["exceeded"])
    parts = [f"```sh\n{run['command']}\n```", where, RENDER[name](found, images), over]
    return "\n\n".join(part for part in parts if part)


def replace_section(page: str, name: str, text: str) -> str:
    """The page with `text` between the comments `<!-- name -->` and `<!-- /name -->`."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
    if not place.search(page):
        raise SystemExit(f"the page has no marks <!-- {name} --> and <!-- /{name} -->: add them")
    return place.sub(lambda marks: f"{marks[1]}{text}\n{marks[2]}", page)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args(words)
    page = options.page.read_text(encoding="utf-8")
    over = []
    for name in RENDER:
        file = options.results / f"{name}.json"
        if file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            page = replace_section(page, name, section(name, found, options.page.parent / "images"))
            over += [f"{name}: {line}" for line in found["exceeded"]]
        else:
            print(f"not run: {name}")
    options.page.write_text(page, encoding="utf-8")
    for line in over:
        print(f"over the limit: {line}", file=sys.stderr)
    return int(bool(over))


if __name__ == "__main__":
    raise SystemExit(main())
