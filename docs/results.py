"""Insert the tables that `whyformer reproduce` wrote into docs/results.md.

    python docs/results.py runs/reproduce

The table.md of each experiment goes between the markers of its name. Other tables stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).parent / "results.md"


def insert_table(page: str, name: str, table: str) -> str:
    """Return the page with the table, without its heading, between the markers of that name."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f"{PAGE.name} has no markers for {name}")
    body = table.split("\n", 2)[2]  # without the heading: the page has its own
    return f"{before}{start}{body.strip()}\n{end}{after}"


def main() -> None:
    folder = Path(sys.argv[1])
    page = PAGE.read_text(encoding="utf-8")
    for table in sorted(folder.glob("*/table.md")):
        page = insert_table(page, table.parent.name, table.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
