"""Finish a benchmark: store its figures, and fail if a limit was exceeded."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


def limit_note(limit: float | None) -> str:
    """The limit to print beside a figure, if there is one."""
    return f"  limit {limit:.2f}" if limit else ""


def finish(results: dict[str, Any], exceeded: list[str], path: Path | None) -> int:
    """Write the results if a path is given; return the exit code, 1 if a limit was exceeded."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"run": run(), "exceeded": exceeded, **results}, indent=2)
        # A reader gets either all of this run or all of the one before.
        draft = path.with_suffix(".part")
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(path)
    for line in exceeded:
        print(f"over the limit: {line}", file=sys.stderr)
    return int(bool(exceeded))


def run() -> dict[str, Any]:
    """The command, the machine and the versions."""
    return {
        "command": command(sys.argv),
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def command(words: list[str]) -> str:
    """The command without paths of this machine."""
    kept, rest = [f"benchmarks/{Path(words[0]).name}"], iter(words[1:])
    for word in rest:
        if word in ("--json", "--data"):
            next(rest, None)
        else:
            kept.append(word)
    return " ".join(["python", *kept])


def processor() -> str:
    """The processor's name, if the system states it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
