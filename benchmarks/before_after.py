"""Time two checkouts of whyformer against each other, call by call, in one run.

    python benchmarks/before_after.py ../before --rounds 9

Each checkout runs in its own process on the same random BERT-base and 128 tokens. Calls alternate,
so both see the same machine. A ratio above 1 means that this checkout is slower than the other.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
METHODS = (
    "raw_attention,rollout,grad_cam,gae,gradient_x_input,lrp_ah,lrp_ln,lrp_ah_ln,attn_lrp,"
    "partial_lrp,transformer_attribution,full_lrp"
)

WORKER = """
import json, sys, time, warnings
import torch, transformers
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.manual_seed(0)
import whyformer
config = transformers.BertConfig(num_labels=2)
model = transformers.BertForSequenceClassification(config).eval()
ids = torch.randint(1000, 30000, (1, 128))
inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
for line in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    found = whyformer.explain(inputs, model, method=line.strip(), target=1)
    times = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps([*times, found.scores.abs().sum().item()]), flush=True)
"""


def start_worker(checkout: Path) -> subprocess.Popen[str]:
    """Return a process that explains with the whyformer of one checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=checkout,
    )


def time_call(worker: subprocess.Popen[str], method: str) -> list[float]:
    """Return wall seconds, CPU seconds and the sum of |scores| of one explanation."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(method + "\n")
    worker.stdin.flush()
    found: list[float] = json.loads(worker.stdout.readline())
    return found


def main() -> None:
    """Print a table of ratios; write them as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    before, after = start_worker(options.other.resolve()), start_worker(HERE)
    rows: dict[str, dict[str, Any]] = {}
    for method in options.methods.split(","):
        for worker in (before, after):
            time_call(worker, method)  # warm up
        pairs = [
            (time_call(before, method), time_call(after, method)) for _ in range(options.rounds)
        ]
        rows[method] = {
            "before_ms": 1000 * statistics.median(b[1] for b, _ in pairs),
            "after_ms": 1000 * statistics.median(a[1] for _, a in pairs),
            "cpu_ratio": statistics.median(a[1] / b[1] for b, a in pairs),
            "wall_ratio": statistics.median(a[0] / b[0] for b, a in pairs),
            "score_change": max(abs(a[2] / b[2] - 1) for b, a in pairs),
        }
        print(method, {key: round(value, 4) for key, value in rows[method].items()}, flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
