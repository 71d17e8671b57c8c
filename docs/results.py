"""Copy the tables of `whyformer reproduce` into docs/results.md.

    python docs/results.py runs/reproduce
    python docs/results.py runs/whole whole-

Each experiment's table.md goes between its two comments, whose names may have a prefix. Other
experiments stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).parent / "results.md"


def insert_table(page: str, name: str, table: str) -> str:
    """Return the page with a table, without its heading, between the comments of that name."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f"{PAGE.name} has no place for {name}")
    body = table.split("\n", 2)[2]  # without the heading, which the page already has
    return f"{before}{start}{body.strip()}\n{end}{after}"


def main() -> None:
    folder, prefix = Path(sys.argv[1]), "".join(sys.argv[2:])
    page = PAGE.read_text(encoding="utf-8")
    for table in sorted(folder.glob("*/table.md")):
        page = insert_table(page, prefix + table.parent.name, table.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
