"""Does the race of `recommend` find the winner of the full run, and how long does it take?

    python benchmarks/race.py [--samples 200] [--threads 2] [--json FILE]

Both runs are about the bundled `sst2` model on development sentences of SST-2: the race with its
usual time, and all methods on all sentences without a limit of time. Needs WHYFORMER_DATA.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

import whyformer as wf
from report import finish

LIMIT = 120.0  # seconds


def measure(samples: int, race: bool, data: Path) -> dict[str, Any]:
    """The winner, the methods that are level with it, and the time."""
    start = time.perf_counter()
    time_limit: dict[str, Any] = {} if race else {"seconds": float("inf")}
    found = wf.recommend("sst2", f"sst2:{data / 'sst2'}", samples=samples, race=race, **time_limit)
    dropped = {row.label for row in found.dropped}
    return {
        "winner": found.label,
        "left": [row.label for row in found.rows if row.label not in dropped],
        "samples": found.samples,
        "seconds": time.perf_counter() - start,
        "sentence": found.sentence,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    data = os.environ.get("WHYFORMER_DATA")
    if not data:
        print("skipped: WHYFORMER_DATA is not set")
        return 0
    torch.set_num_threads(options.threads)
    results: dict[str, Any] = {"threads": options.threads}
    for name, race in (("race", True), ("full run", False)):
        results[name] = measure(options.samples, race, Path(data))
        print(f"{name}: {results[name]['sentence']}", flush=True)
        print(f"  {results[name]['samples']} samples, {results[name]['seconds']:.0f} s", flush=True)
    exceeded = []
    if results["race"]["seconds"] > LIMIT:
        exceeded.append(f"the race took {results['race']['seconds']:.0f} s > {LIMIT:.0f} s")
    if results["race"]["winner"] != results["full run"]["winner"]:
        exceeded.append(
            f"the race chose {results['race']['winner']}, the full run"
            f" {results['full run']['winner']}"
        )
    return finish(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
