"""CPU time from the start of Python to an answer, against importing torch and transformers alone.

    python benchmarks/start.py [--rounds 5] [--json FILE]

Each line is a process of its own, its user and system time summed over threads; the least of the
rounds counts. Bytecode is compiled before the first round. Three limits: `import whyformer` 1.15
times `import torch`; `whyformer --help` one second beyond an empty Python; `whyformer explain` 1.2
times importing torch and transformers, loading the bundled model and tokenizer, and one forward.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from report import finish

TEXT = "a gripping, beautifully acted film"
BY_HAND = f"""
import torch, transformers, whyformer
from whyformer.models.bundled import ROOT
from whyformer.models.packed_weights import PACKED, read_packed
folder = ROOT / "sst2"
config = transformers.AutoConfig.from_pretrained(folder)
model = transformers.BertForSequenceClassification.from_pretrained(
    None, config=config, state_dict=read_packed(folder / PACKED)
)
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
with torch.no_grad():
    model(**tokenizer({TEXT!r}, return_tensors="pt"))
"""
WORK = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import whyformer": ["-c", "import whyformer"],
    "whyformer --help": ["-m", "whyformer", "--help"],
    "by hand": ["-c", BY_HAND],
    "whyformer explain": ["-m", "whyformer", "explain", TEXT],
}
IMPORT_LIMIT, HELP_LIMIT, EXPLAIN_LIMIT = 1.15, 1.0, 1.2


def cpu_seconds(arguments: Sequence[str]) -> float:
    """Return the user and system time of one Python process."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    before = os.times()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure in turn, print the figures, and return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    for work in WORK.values():
        cpu_seconds(work)  # compiles bytecode, fills the file cache
    least = dict.fromkeys(WORK, float("inf"))
    for _ in range(options.rounds):
        least = {name: min(least[name], cpu_seconds(work)) for name, work in WORK.items()}
    for name, seconds in least.items():
        print(f"{name:<18} {seconds:6.2f} s")
    figures = {
        "import whyformer / import torch": least["import whyformer"] / least["import torch"],
        "whyformer --help beyond python, s": least["whyformer --help"] - least["python"],
        "whyformer explain / by hand": least["whyformer explain"] / least["by hand"],
    }
    limits = dict(zip(figures, (IMPORT_LIMIT, HELP_LIMIT, EXPLAIN_LIMIT), strict=True))
    for name, value in figures.items():
        print(f"{name:<34} {value:5.2f}  limit {limits[name]}")
    exceeded = [name for name, value in figures.items() if value > limits[name]]
    return finish({"seconds": least, "figures": figures}, exceeded, options.json)


if __name__ == "__main__":
    sys.exit(main())
