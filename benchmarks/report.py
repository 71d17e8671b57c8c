"""How a benchmark ends: its figures kept, and a failure where a limit was exceeded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def against(limit: float | None) -> str:
    """The limit beside a figure, where there is one."""
    return f"  limit {limit:.2f}" if limit else ""


def ended(results: dict[str, Any], exceeded: list[str], path: Path | None) -> int:
    """The exit code, 1 where a limit was exceeded; writes the results where a path is given."""
    if path:
        path.write_text(json.dumps(results, indent=2), encoding="utf-8")
    for line in exceeded:
        print(f"over the limit: {line}", file=sys.stderr)
    return int(bool(exceeded))
