"""Puts the tables that `whyformer reproduce` wrote into docs/results.md.

    python docs/results.py runs/reproduce

Each experiment's table.md goes between its two marks; what was not run stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).parent / "results.md"


def put(page: str, name: str, table: str) -> str:
    """The page with a table between the marks of that name, its own heading left out."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f"{PAGE.name} has no place for {name}")
    body = table.split("\n", 2)[2]  # without the heading: the page has its own
    return f"{before}{start}{body.strip()}\n{end}{after}"


def main() -> None:
    folder = Path(sys.argv[1])
    page = PAGE.read_text(encoding="utf-8")
    for table in sorted(folder.glob("*/table.md")):
        page = put(page, table.parent.name, table.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
